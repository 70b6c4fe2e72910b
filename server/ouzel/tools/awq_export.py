"""A checkpoint in AWQ's format (`GEMM`): asymmetric four bits with whole zeros, scaled by what its layers are given.

The factors of `quantization/activation_aware` are multiplied into a layer's inputs and divided out of what they come
from: a norm, the rows of the value projection, the rows of the MLP's `up`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ouzel.errors import ConfigError
from ouzel.quantization.activation_aware import input_scale
from ouzel.quantization.activations import Activations
from ouzel.quantization.public_layouts import pack_awq
from ouzel.tools.decoder_names import Join
from ouzel.tools.four_bit_export import Part, Seen, export, grid_of

__all__ = ["awq_export", "fold"]


def awq_export(source: Path, folder: Path, seen: Seen, *, group: int = 128, search: bool = True) -> int:
    """Write the checkpoint `source` into the new `folder`; the group that fits every layer is returned.

    :param seen: activations by module, as `calibrate` finds them
    :param group: the most inputs that share a scale: 128, 64 or 32
    :param search: look for the range of each group with the least error
    :raises CheckpointError: when the source isn't whole, or quantized already
    :raises ConfigError: when its layers aren't known, have widths that groups of 32 don't divide, or weren't seen
    :raises OutputError: when the folder has files already, or can't be written
    """
    return export(source, folder, _Awq(search, dict(seen)), group)


@dataclass(frozen=True, slots=True)
class _Awq:
    search: bool
    #: of the model as it has become
    seen: dict[str, Activations]

    def prepare(self, part: Part, group: int) -> None:
        for join in part.joins:
            if missing := [name for name in join.readers if name not in self.seen]:
                raise ConfigError(f"no activations are known of {missing[0]}; AWQ needs those of every linear layer")
            channels = _channels(join, part)
            weights = [part.tensors[f"{name}.weight"] for name in join.readers]
            wished = input_scale(weights, self.seen[join.readers[0]], group, channels=channels)
            scale = fold(part, join, wished)[channels]
            # One for all of them: a second moment is the largest thing here.
            self.seen.update(dict.fromkeys(join.readers, self.seen[join.readers[0]].scaled(scale)))

    def quantize(self, module: str, weight: Tensor, group: int) -> dict[str, Tensor]:
        return pack_awq(grid_of(weight, group, is_symmetric=False, search=self.search, seen=self.seen.pop(module)))

    def settings(self, group: int, kept: Sequence[str]) -> dict[str, Any]:
        return {
            "quant_method": "awq",
            "version": "gemm",
            "bits": 4,
            "group_size": group,
            "zero_point": True,
            "lm_head": True,
            "modules_to_not_convert": list(kept) or None,
        }


def _channels(join: Join, part: Part) -> Tensor:
    """[K]: the channel of its source that each input of a join is."""
    inputs = torch.arange(part.tensors[f"{join.readers[0]}.weight"].shape[1])
    if join.sharing == 1:
        return inputs
    return inputs // (join.sharing * join.head_size) * join.head_size + inputs % join.head_size


def fold(part: Part, join: Join, scale: Tensor) -> Tensor:
    """Divide what a join comes from by `scale` [C] and multiply its readers by it; the factors used are returned.

    They differ a little from those wished where a norm stores its weight in bfloat16: what is stored decides.
    """
    channels = _channels(join, part)
    source = part.tensors[f"{join.source}.weight"].float()
    if source.ndim == 1:
        stored = (source / scale).bfloat16().float()
        usable = stored != 0
        scale = torch.where(usable, source / torch.where(usable, stored, 1), 1)
        part.tensors[f"{join.source}.weight"] = torch.where(usable, stored, source)
    else:
        for name in (f"{join.source}.weight", f"{join.source}.bias"):
            if name in part.tensors:
                whole = part.tensors[name].float().clone()
                factors = scale if whole.ndim == 1 else scale[:, None]
                whole[-len(scale) :] /= factors
                part.tensors[name] = whole
    for name in (*join.readers, *join.kept):
        part.tensors[f"{name}.weight"] = part.tensors[f"{name}.weight"].float() * scale[channels]
    return scale
