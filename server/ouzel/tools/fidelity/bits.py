"""Bits a weight, counted from the files.

A token reads every linear and the output head, the embedding only where that is the head too. Scales, zero points and
whatever else a quantized layer has count; norms don't.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ouzel.errors import CheckpointError

__all__ = ["Size", "folder_size", "gguf_size"]

#: of a layer: a code is half a byte in each layout (GPTQ, AWQ, W4A16)
_CODES = "qweight"
_EMBEDDINGS = ("embed_tokens", "embedding", "token_embd")
_HEADS = ("lm_head", "output")


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes and weights of a build's matrices."""

    #: of the linears and the output head
    read_bytes: int
    read_weights: int
    #: of all tensors
    stored_bytes: int

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.read_bytes / self.read_weights


@dataclass(slots=True)
class _Layer:
    bytes: int = 0
    weights: int = 0


def folder_size(folder: Path) -> Size:
    """Of a checkpoint folder.

    :raises CheckpointError: when it has no safetensors, or one is torn
    """
    layers: dict[str, _Layer] = defaultdict(_Layer)
    for name, tensor in _tensors(folder):
        layer, _, part = name.rpartition(".")
        size = tensor["data_offsets"][1] - tensor["data_offsets"][0]
        layers[layer].bytes += size
        if part == _CODES:
            layers[layer].weights += 2 * size
        elif part == "weight" and len(tensor["shape"]) == 2:
            layers[layer].weights += math.prod(tensor["shape"])
    return _size(layers)


def gguf_size(file: Path) -> Size:
    """Of a GGUF."""
    from gguf import GGUFReader

    layers = {
        tensor.name.removesuffix(".weight"): _Layer(
            int(tensor.n_bytes), int(tensor.n_elements) if len(tensor.shape) == 2 else 0
        )
        for tensor in GGUFReader(file).tensors
    }
    return _size(layers)


def _size(layers: Mapping[str, _Layer]) -> Size:
    last = {name: name.rpartition(".")[2] for name in layers}
    untied = any(part in _HEADS for part in last.values())
    read = [layer for name, layer in layers.items() if layer.weights and not (untied and last[name] in _EMBEDDINGS)]
    return Size(
        sum(layer.bytes for layer in read),
        sum(layer.weights for layer in read),
        sum(layer.bytes for layer in layers.values()),
    )


def _tensors(folder: Path) -> Iterable[tuple[str, dict[str, Any]]]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{folder} has no safetensors")
    for file in files:
        try:
            with file.open("rb") as data:
                header = json.loads(data.read(int.from_bytes(data.read(8), "little")))
        except (OSError, ValueError, OverflowError, MemoryError) as error:
            raise CheckpointError(f"{file} is torn: {error}") from error
        header.pop("__metadata__", None)
        yield from header.items()
