"""Writes a checkpoint in our own four-bit format: the grid that the language stage makes at load, made once.

Tensors go through one at a time, a block of rows at a time; what isn't put into four bits is copied as it is. Where it
is known what a layer is given, what rounding does to its outputs is made good as far as it goes, which a load can't.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ouzel.errors import CheckpointError, ConfigError
from ouzel.quantization.activations import Activations
from ouzel.quantization.feedback import with_feedback
from ouzel.quantization.grid import Grid, asymmetric
from ouzel.quantization.groups import FORMAT, GROUPS, group_size, is_packed
from ouzel.quantization.packed_weight import BLOCK_VALUES
from ouzel.quantization.portable import to_portable
from ouzel.tools.folders import NewFolder, SourceFolder, refuse_existing, refuse_quantized

__all__ = ["quantize"]

#: bytes of tensors in one file, unless one tensor has more
_FILE = 256 << 20
#: Matrices that stay in floating point, by the last part of their names.
_KEPT = {"g_proj"}


def quantize(source: Path, folder: Path, most: int = 128, seen: Mapping[str, Activations] | None = None) -> None:
    """Write the checkpoint `source` into the new `folder` in four bits.

    :param most: inputs that share a scale: 128, 64 or 32; in each layer the largest that divides its width
    :param seen: activations by module with their second moments, as `calibrate` finds them; an embedding that is the
        head too is also looked up, and stays on the grid that is nearest
    :raises CheckpointError: when the source isn't whole, is quantized already, or has matrices that are unknown here
    :raises ConfigError: when the group is none of these, or none divides a layer's width
    :raises OutputError: when the folder has files already, or can't be written
    """
    refuse_existing(folder)
    if most not in GROUPS:
        raise ConfigError(f"a group of {most} is not one of {', '.join(map(str, GROUPS))}", param="group")
    given = SourceFolder(source)
    refuse_quantized(given)
    _check(given, most)
    with NewFolder(folder, source) as new:
        held: dict[str, Tensor] = {}
        for name in given:
            held |= _tensors(name, given[name], most, seen or {})
            if sum(tensor.nbytes for tensor in held.values()) >= _FILE:
                new.add(held)
                held = {}
        if held:
            new.add(held)
        new.close(given.config | {"quantization_config": {"quant_method": FORMAT, "group_size": most}})


def _check(given: SourceFolder, most: int) -> None:
    """Before minutes are spent."""
    packed = False
    for name in given:
        shape = given.shape(name)
        if is_packed(name, shape):
            packed = True
            try:
                group_size(shape[1], most)
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}", param=error.param) from error
        elif len(shape) > 1 and name.rpartition(".")[0].rpartition(".")[2] not in _KEPT:
            raise CheckpointError(
                f"{name} {list(shape)} is unknown here; Llama-style and Spark checkpoints are quantized"
            )
    if not packed:
        raise CheckpointError(f"{given.folder} has no linear layers; expected a Llama-style or Spark checkpoint")


def _tensors(name: str, tensor: Tensor, most: int, seen: Mapping[str, Activations]) -> dict[str, Tensor]:
    if not is_packed(name, tensor.shape):
        # Out of the file's map, which a private page of each would keep open.
        return {name: tensor.clone()}
    module = name.removesuffix(".weight")
    given = seen.get(module)
    rows, width = tensor.shape
    group, step = group_size(width, most), max(1, BLOCK_VALUES // width)
    blocks: list[dict[str, Any]] = [
        to_portable(_grid(tensor[first : first + step], group, None if given is None else given.second_moment))
        for first in range(0, rows, step)
    ]
    return {f"{module}.{part}": torch.cat([block[part] for block in blocks]) for part in blocks[0]}


def _grid(weight: Tensor, group: int, moment: Tensor | None) -> Grid:
    if moment is None:
        return asymmetric(weight, group)
    return with_feedback(weight, group, moment, lambda part, _: asymmetric(part, group))
