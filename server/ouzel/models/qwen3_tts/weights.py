"""Tensors of a checkpoint folder: one safetensors file or a sharded set with its index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from ouzel.errors import CheckpointError
from ouzel.models.qwen3_tts.published_json import read_json

__all__ = ["fill", "load_tensors", "take"]

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def load_tensors(folder: Path, prefix: str = "", *, without: Sequence[str] = ()) -> dict[str, Tensor]:
    """Every tensor whose key starts with `prefix` (cut off) and with none of `without`, in the stored dtype.

    Raises `CheckpointError` when a file is missing or torn, or when the index names what its file doesn't hold.
    """
    tensors: dict[str, Tensor] = {}
    for file, expected in _files(folder):
        try:
            with safe_open(file, framework="pt") as shard:
                keys = set(shard.keys())
                if absent := expected - keys:
                    raise CheckpointError(f"{file}: {min(absent)} is missing, {INDEX} expects it here")
                for key in sorted(keys):
                    if key.startswith(prefix) and not key.startswith(tuple(without)):
                        tensors[key.removeprefix(prefix)] = shard.get_tensor(key)
        except FileNotFoundError:
            raise CheckpointError(f"{file} is missing") from None
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{file} is torn or no safetensors file: {error}") from error
    return tensors


def take(tensors: dict[str, Tensor], key: str, shape: Iterable[int], *, source: str) -> Tensor:
    """The tensor under `key`; `CheckpointError` names `source`, key, expected and found shape."""
    expected = tuple(shape)
    if key not in tensors:
        raise CheckpointError(f"{source}: {key} is missing, expected shape {list(expected)}")
    found = tuple(tensors[key].shape)
    if found != expected:
        raise CheckpointError(f"{source}: {key} has shape {list(found)}, expected {list(expected)}")
    return tensors[key]


def fill(module: nn.Module, tensors: dict[str, Tensor], *, source: str, dtype: torch.dtype) -> None:
    """Give every parameter and persistent buffer of `module` its tensor, as `dtype`, without a copy where it has it.

    Raises `CheckpointError` for a missing key, a wrong shape, or a key that the module doesn't know.
    """
    wanted = module.state_dict()
    if unknown := tensors.keys() - wanted.keys():
        raise CheckpointError(f"{source}: {min(unknown)} is not expected here")
    state = {key: take(tensors, key, value.shape, source=source).to(dtype) for key, value in wanted.items()}
    module.load_state_dict(state, assign=True)


def _files(folder: Path) -> list[tuple[Path, set[str]]]:
    if not (folder / INDEX).exists():
        return [(folder / WEIGHTS, set())]
    index = read_json(folder / INDEX).section("weight_map")
    shards: dict[str, set[str]] = {}
    for key in index:
        shards.setdefault(index.text(key), set()).add(key)
    return [(folder / name, keys) for name, keys in sorted(shards.items())]
