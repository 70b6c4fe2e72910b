"""What a Spark checkpoint is asked, and its stored weights as the reference reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from torch import Tensor

from ouzel.tools.make_checkpoint import TINY, make_checkpoint


def write_tiny(folder: Path, **other: Any) -> Path:
    """8 layers of width 256 with a window of 32, in float32; `other` sizes as `Geometry` has them."""
    return make_checkpoint(folder, replace(TINY, **other), dtype="float32")


def config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


class Stored(Mapping[str, Tensor]):
    """The weights of a checkpoint by name, in float32, read from the disk each time."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, str] = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
        self._folder = folder

    def __getitem__(self, name: str) -> Tensor:
        with safe_open(self._folder / self._files[name], "pt") as file:
            return file.get_tensor(name).float()

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def scenarios(vocabulary: int = TINY.vocabulary) -> dict[str, list[int]]:
    """Prompts as token ids: a short one, a tool call (a schema whose keys recur), a context far beyond the window."""
    draw = np.random.default_rng(0)
    keys = draw.integers(32, vocabulary, 24)
    schema = [np.concatenate([keys, draw.integers(32, vocabulary, 12)]) for _ in range(8)]
    return {
        "short": draw.integers(32, vocabulary, 12).tolist(),
        "tool call": np.concatenate(schema).tolist(),
        "long": draw.integers(32, vocabulary, 2465).tolist(),
    }
