"""A checkpoint as a GGUF for llama.cpp, whose own quantizer is asked for four and eight bits."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import Any

from ouzel.errors import ConfigError, OutputError, RequestError
from ouzel.tools.folders import SourceFolder, refuse_quantized

__all__ = ["gguf_export"]

_FLOATS = ("F32", "F16", "BF16")
#: of llama.cpp's `llama_ftype`
_QUANTIZED = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q4_K_M": 15}


def gguf_export(source: Path, file: Path, kind: str = "F16") -> None:
    """Write the Llama-style or Spark checkpoint `source` to the new `file`.

    :param kind: F32, F16, BF16; or Q4_0, Q4_1, Q8_0, Q4_K_M, for which llama-cpp-python must be installed
    :raises RequestError: when there is no such kind
    :raises CheckpointError: when the source isn't whole, is quantized, or has tensors unknown to llama.cpp
    :raises ConfigError: when its type isn't known here, or llama-cpp-python is missing
    :raises OutputError: when the file exists already or can't be written
    """
    if kind not in _FLOATS and kind not in _QUANTIZED:
        raise RequestError(f"type {kind!r} is not one of {', '.join((*_FLOATS, *_QUANTIZED))}", param="type")
    given = SourceFolder(source)
    refuse_quantized(given)
    if file.exists():
        raise OutputError(f"{file} exists already: name a new file")
    llama_cpp = None if kind in _FLOATS else _llama_cpp(kind)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Beside the file, so that moving it there takes no time, and there is none before it is whole.
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
            whole = Path(folder) / "whole.gguf"
            _write(given, whole, kind if llama_cpp is None else "BF16")
            if llama_cpp is not None:
                _quantize(llama_cpp, whole, whole := Path(folder) / "quantized.gguf", _QUANTIZED[kind])
            whole.rename(file)
    except OSError as error:
        raise OutputError(f"{file} can't be written: {error}") from error


def _write(given: SourceFolder, file: Path, kind: str) -> None:
    if given.config["model_type"] == "spark2_5":
        from ouzel.tools.spark_gguf import write_gguf

        write_gguf(given.folder, file, kind)
    else:
        from ouzel.tools.llama_gguf import write_llama_gguf

        write_llama_gguf(given, file, kind)


def _llama_cpp(kind: str) -> Any:
    try:
        return importlib.import_module("llama_cpp")
    except ImportError as error:
        raise ConfigError(
            f"type {kind} is made by llama.cpp: pip install llama-cpp-python; {', '.join(_FLOATS)} need none"
        ) from error


def _quantize(llama_cpp: Any, whole: Path, quantized: Path, number: int) -> None:
    wishes = llama_cpp.llama_model_quantize_default_params()
    wishes.ftype = number
    failed = llama_cpp.llama_model_quantize(str(whole).encode(), str(quantized).encode(), wishes)
    if failed:
        raise OutputError(f"llama.cpp could not quantize: its code is {failed}")
