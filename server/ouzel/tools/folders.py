"""A checkpoint folder read tensor by tensor, and a new one written part by part: a whole model is never in memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ouzel.errors import CheckpointError, OutputError
from ouzel.tools.model_store import read_model_config

__all__ = ["INDEX", "NewFolder", "SourceFolder", "refuse_existing", "refuse_quantized"]

INDEX = "model.safetensors.index.json"
#: what a new folder gets with other content, or none at all
_NOT_COPIED = {"config.json", INDEX, "quantize_config.json"}
_COPIED = {".json", ".jinja", ".model", ".txt"}


class SourceFolder:
    """A checkpoint of safetensors; tensors are read when they are asked for.

    :raises CheckpointError: when config.json or the weights are missing or torn
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config: dict[str, Any] = read_model_config(folder)
        index = _index(folder)
        paths = sorted(folder.glob("*.safetensors")) if index is None else sorted({folder / f for f in index.values()})
        self._files = {name: path for path in paths for name in _names(path)}
        if not self._files:
            raise CheckpointError(f"{folder} has no weights; expected *.safetensors")
        if missing := (index or {}).keys() - self._files.keys():
            raise CheckpointError(f"{folder} isn't whole: {INDEX} names {min(missing)}, which no file has")

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __getitem__(self, name: str) -> Tensor:
        """
        :raises CheckpointError: when there is no such tensor
        """
        with safe_open(self._file(name), "pt") as file:
            return file.get_tensor(name)

    def by_file(self) -> Iterator[list[str]]:
        """The names of each file's tensors."""
        for path in sorted(set(self._files.values())):
            yield [name for name, file in self._files.items() if file == path]

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor, which isn't read for it.

        :raises CheckpointError: when there is no such tensor
        """
        with safe_open(self._file(name), "pt") as file:
            return tuple(file.get_slice(name).get_shape())

    def _file(self, name: str) -> Path:
        if name not in self._files:
            raise CheckpointError(f"{self.folder} has no tensor {name!r}")
        return self._files[name]


def _index(folder: Path) -> dict[str, str] | None:
    """The file of each tensor, where the folder says it; other files are then none of the checkpoint's."""
    path = folder / INDEX
    if not path.is_file():
        return None
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["weight_map"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is torn, expected weight_map: {error}") from error


def _names(path: Path) -> list[str]:
    try:
        with safe_open(path, "pt") as file:
            return list(file.keys())
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing, which {INDEX} names") from error
    except SafetensorError as error:
        raise CheckpointError(f"{path} is torn or no safetensors file: {error}") from error


def refuse_quantized(source: SourceFolder) -> None:
    """
    :raises CheckpointError: when its weights are quantized already
    """
    found = source.config.get("quantization_config")
    packed = next((name for name in source if name.endswith(".qweight")), None)
    if found or packed or (source.folder / "quantize_config.json").exists():
        method = found.get("quant_method", "some method") if isinstance(found, dict) else packed or "some method"
        raise CheckpointError(f"{source.folder} is quantized already ({method}); expected weights in floating point")


def refuse_existing(folder: Path) -> None:
    """
    :raises OutputError: when the folder exists and isn't empty
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(f"{folder} exists already: name a folder that is new or empty")


class NewFolder:
    """A checkpoint in the making: `add` parts, then `close`. What isn't finished is removed when the block is left.

    :raises OutputError: when the folder exists and has files, or can't be written
    """

    def __init__(self, folder: Path, like: Path) -> None:
        self.folder = folder
        self._index: dict[str, str] = {}
        self._size = self._parts = 0
        self._closed = False
        refuse_existing(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(like.iterdir()):
                if path.suffix in _COPIED and path.name not in _NOT_COPIED:
                    shutil.copyfile(path, folder / path.name)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise OutputError(f"{like} can't be copied to {folder}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._closed:
            shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, tensors: Mapping[str, Tensor]) -> None:
        """Write one file of tensors; each name comes once.

        :raises OutputError: when it can't be written
        """
        self._parts += 1
        file = f"model-{self._parts:05}.safetensors"
        whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
        try:
            save_file(whole, self.folder / file, metadata={"format": "pt"})
        except (OSError, SafetensorError) as error:
            raise OutputError(f"{self.folder / file} can't be written: {error}") from error
        self._index |= dict.fromkeys(whole, file)
        self._size += sum(tensor.nbytes for tensor in whole.values())

    def close(self, config: Mapping[str, Any]) -> None:
        """Write index and config.json, by which the folder counts as whole."""
        index = {"metadata": {"total_size": self._size}, "weight_map": self._index}
        for name, content in ((INDEX, index), ("config.json", config)):
            self.write_json(name, content)
        self._closed = True

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """:raises OutputError: when it can't be written"""
        path = self.folder / name
        try:
            path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise OutputError(f"{path} can't be written: {error.strerror}") from error
