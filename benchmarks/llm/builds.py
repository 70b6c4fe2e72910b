"""The builds of a language model that are measured, made once by the commands that make them for everybody.

A build that is there is kept; one that was interrupted is made again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


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
    "w4a16-feedback-g32": Recipe("quantize", ("--group", "32", "--calibrate", "default")),
    "w4a16-feedback-g64": Recipe("quantize", ("--group", "64", "--calibrate", "default")),
    "gptq-plain-g64": Recipe("gptq-export", ("--group", "64", "--no-search")),
    "gptq-search-g64": Recipe("gptq-export", ("--group", "64")),
    "gptq-importance-g64": Recipe("gptq-export", ("--group", "64", "--calibrate", "default")),
    "gptq-feedback-g64": Recipe("gptq-export", ("--group", "64", "--calibrate", "default", "--feedback")),
    "awq-scaled-g64": Recipe("awq-export", ("--group", "64", "--no-feedback")),
    "awq-g64": Recipe("awq-export", ("--group", "64")),
    "awq-g32": Recipe("awq-export", ("--group", "32")),
    **{kind.lower(): Recipe("gguf-export", ("--type", kind)) for kind in ("F16", "Q8_0", "Q4_0", "Q4_K_M")},
    # what the speed of a kernel is measured on: it doesn't depend on how well the codes were chosen
    "gptq-quick": Recipe("gptq-export", ("--group", "128", "--no-search")),
    "awq-quick": Recipe("awq-export", ("--group", "128", "--no-search", "--no-feedback")),
}


def run_ouzel(*arguments: object) -> None:
    """A command of ours in a process of its own, which gives its memory back."""
    command = [sys.executable, "-c", "from ouzel.cli import app; app()", *map(str, arguments)]
    print("ouzel", *arguments, file=sys.stderr)
    subprocess.run(command, check=True)


def make(name: str, source: Path, folder: Path) -> Path:
    """The build `name` of the checkpoint `source`, in `folder`: a folder, or a file for llama.cpp."""
    recipe = RECIPES[name]
    file = f"{name}.gguf" if recipe.command == "gguf-export" else name
    return whole(folder / file, lambda target: run_ouzel(recipe.command, source, target, *recipe.options))


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
