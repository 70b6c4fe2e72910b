"""Four-bit weights on disk, the same for every machine.

`qweight` [N, K/2] uint8, two neighbouring inputs in a byte, the even one in bits 0-3; `scales` and `offsets`
[N, K/group] bfloat16: w = (code - 8) * scale + offset. All are in the order of the weight's rows, so that layers which
are merged in memory are merged by their rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ouzel.quantization.grid import MIDDLE, Grid
from ouzel.quantization.groups import FORMAT

__all__ = ["FORMAT", "from_portable", "join_codes", "split_codes", "to_portable"]


def to_portable(grid: Grid) -> dict[str, Tensor]:
    """The three tensors; scale and offset must be values of bfloat16, as `asymmetric` makes them."""
    return {
        "qweight": join_codes(grid.codes),
        "scales": grid.scale.bfloat16(),
        "offsets": grid.offset.bfloat16(),
    }


def from_portable(qweight: Tensor, scales: Tensor, offsets: Tensor) -> Grid:
    """The grid that was written, bit for bit."""
    scale = scales.float()
    return Grid(split_codes(qweight), scale, MIDDLE - offsets.float() / scale)


def join_codes(codes: Tensor) -> Tensor:
    # codes: [N, K] uint8 -> [N, K/2] uint8
    return codes[:, 0::2] | codes[:, 1::2] << 4


def split_codes(qweight: Tensor) -> Tensor:
    # qweight: [N, K/2] uint8 -> [N, K] uint8
    return torch.stack((qweight & 15, qweight >> 4), -1).flatten(1)
