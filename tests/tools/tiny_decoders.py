"""Checkpoints small enough to try everything on, with widths that four-bit kernels take, and norms that aren't ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from tiny_llama import write_llama
from torch import Tensor

from ouzel.tools.folders import SourceFolder
from ouzel.tools.make_checkpoint import TINY, make_checkpoint

VOCABULARY = 128


def write_tiny_llama(folder: Path, *, hidden: int = 64, layers: int = 2) -> Path:
    """Two heads of queries on one of values; in float32, tied."""
    write_llama(folder, vocab_size=VOCABULARY, hidden_size=hidden, num_hidden_layers=layers)
    weights = {name: tensor * loudness(name, tensor) for name, tensor in read(folder).items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def loudness(name: str, tensor: Tensor) -> Tensor:
    """Norms that let some channels through more than others; weights small enough that errors don't grow."""
    if tensor.ndim == 1:
        return torch.linspace(0.2, 3.0, len(tensor))
    return torch.tensor(0.15)


def write_tiny_spark(folder: Path, *, vocabulary: int = 512) -> Path:
    """Four layers, of which one sees everything; in float32."""
    geometry = replace(TINY, layers=4, hidden=64, inner=128, heads=2, kv_heads=1, head_size=32, vocabulary=vocabulary)
    return make_checkpoint(folder, geometry, dtype="float32")


def read(folder: Path) -> dict[str, Tensor]:
    source = SourceFolder(folder)
    return {name: source[name] for name in source}


def config(folder: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads((folder / "config.json").read_text())
    return content
