"""Four-bit grids: a weight as whole numbers 0 to 15, with a scale and a zero for each group of its inputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ouzel.errors import ConfigError
from ouzel.quantization.groups import GROUPS, group_size

__all__ = ["GROUPS", "LARGEST_CODE", "MIDDLE", "Grid", "asymmetric", "group_size"]

LARGEST_CODE = 15
#: The code about which tinygemm stores a group: w = (code - 8) * scale + offset.
MIDDLE = 8
#: An offset of fewer steps of the grid counts as none, so that a zero in float32 gives its offset back exactly.
_NO_OFFSET = 2.0**-10


@dataclass(frozen=True, slots=True)
class Grid:
    """A weight on a group-wise four-bit grid: w = (code - zero) * scale."""

    codes: Tensor  # [N, K] uint8, 0 to 15
    scale: Tensor  # [N, K / group] float32
    zero: Tensor  # [N, K / group] float32: the code whose value is nothing; needn't be whole, nor within 0 to 15

    @property
    def group(self) -> int:
        """Inputs that share a scale."""
        return int(self.codes.shape[1] // self.scale.shape[1])

    def dequantize(self) -> Tensor:
        """[N, K] float32."""
        rows, groups = self.scale.shape
        codes = self.codes.view(rows, groups, -1).float()
        return ((codes - self.zero[..., None]) * self.scale[..., None]).view(rows, -1)

    @property
    def offset(self) -> Tensor:
        """[N, K / group] float32: what the middle code is worth, (8 - zero) * scale."""
        return (MIDDLE - self.zero) * self.scale


def asymmetric(weight: Tensor, group: int) -> Grid:
    """Fifteen equal steps from each group's smallest value to its largest, rounded to the nearest.

    Scale and offset are values of bfloat16, for so tinygemm keeps them. `zero` is 8 - offset / scale in float32;
    `Grid.offset`, rounded to bfloat16, is that very offset again.

    :raises ConfigError: when the group doesn't divide the weight's width
    """
    # weight: [N, K] of any floating-point type
    rows, width = weight.shape
    if width % group:
        raise ConfigError(
            f"groups of {group} don't divide a layer of {width} inputs; expected one of {GROUPS} that does"
        )
    grouped = weight.float().view(rows, width // group, group)
    low, high = grouped.aminmax(dim=-1)
    scale = ((high - low) / LARGEST_CODE).bfloat16().float()
    # Where all values of a group are the same, they are its offset, and the middle code says so.
    flat = scale == 0
    scale = torch.where(flat, torch.where(low == 0, torch.ones_like(low), low.abs()).bfloat16().float(), scale)
    offset = torch.where(flat, low, low + scale * MIDDLE).bfloat16().float()
    offset = torch.where(offset.abs() < scale * _NO_OFFSET, torch.zeros_like(offset), offset)
    codes = ((grouped - offset[..., None]) / scale[..., None] + MIDDLE).round_().clamp_(0, LARGEST_CODE)
    return Grid(codes.to(torch.uint8).view(rows, width), scale, MIDDLE - offset / scale)
