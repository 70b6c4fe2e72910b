"""The builds of a language model that are measured, made once by the commands that make them for everybody.

A build that is there is kept; one that was interrupted is made again.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

#: llama.cpp's types of files, as its llama.h counts them
FILE_TYPES = {"q4_0": 2, "q8_0": 7, "q4_k_m": 15}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a build is made of a checkpoint: a command of `ouzel` that takes SRC, DST and more."""

    command: str
    options: tuple[str, ...] = ()


#: by name; groups of 64, because 128 doesn't divide SmolLM2's 576
RECIPES = {
    "w4a16-g32": Recipe("quantize", ("--group", "32")),
    "w4a16-g64": Recipe("quantize", ("--group", "64")),
    "w4a16-g128": Recipe("quantize", ("--group", "128")),
    "gptq-plain-g64": Recipe("gptq-export", ("--group", "64", "--no-search")),
    "gptq-search-g64": Recipe("gptq-export", ("--group", "64")),
    "gptq-importance-g64": Recipe("gptq-export", ("--group", "64", "--calibrate", "default")),
    "gptq-feedback-g64": Recipe("gptq-export", ("--group", "64", "--calibrate", "default", "--feedback")),
    "awq-g64": Recipe("awq-export", ("--group", "64")),
    "awq-g32": Recipe("awq-export", ("--group", "32")),
    # what the speed of a kernel is measured on: it doesn't depend on how well the codes were chosen
    "gptq-quick": Recipe("gptq-export", ("--group", "128", "--no-search")),
    "awq-quick": Recipe("awq-export", ("--group", "128", "--no-search")),
}


def run_ouzel(*arguments: object) -> None:
    """A command of ours in a process of its own, which gives its memory back."""
    command = [sys.executable, "-c", "from ouzel.cli import app; app()", *map(str, arguments)]
    print("ouzel", *arguments, file=sys.stderr)
    subprocess.run(command, check=True)


def make(name: str, source: Path, folder: Path) -> Path:
    """The build `name` of the checkpoint `source`, in `folder`: a folder, or a file for llama.cpp."""
    if name in FILE_TYPES:
        return _quantized_gguf(name, source, folder)
    if name == "f16":
        return whole(folder / "f16.gguf", lambda target: run_ouzel("gguf-export", source, target))
    recipe = RECIPES[name]
    return whole(folder / name, lambda target: run_ouzel(recipe.command, source, target, *recipe.options))


def rotate(source: Path, folder: Path) -> Path:
    return whole(folder, lambda target: run_ouzel("rotate", source, target))


def expand(source: Path, folder: Path) -> Path:
    return whole(folder, lambda target: run_ouzel("expand", source, target))


def whole(target: Path, write: Callable[[Path], None]) -> Path:
    """`target`, written where it isn't there, and there only when it is whole."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"partial-{target.name}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.unlink(missing_ok=True)
        write(partial)
        partial.rename(target)
    return target


def _quantized_gguf(name: str, source: Path, folder: Path) -> Path:
    unpacked = make("f16", source, folder).resolve()
    code = "import sys, builds; builds.quantize_gguf(*sys.argv[1:])"

    def write(target: Path) -> None:
        command = [sys.executable, "-c", code, str(unpacked), str(target.resolve()), name]
        subprocess.run(command, check=True, cwd=Path(__file__).parent)

    return whole(folder / f"{name}.gguf", write)


def quantize_gguf(source: str, target: str, name: str) -> None:
    """By llama.cpp; what a K-quant can't hold, it holds in the next larger of its old types."""
    import llama_cpp

    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype, settings.nthread = FILE_TYPES[name], len(os.sched_getaffinity(0))
    failed = llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(settings))
    if failed:
        raise SystemExit(f"llama.cpp can't make {name} of {source}: {failed}")
