"""The grid of AWQ checkpoints: a scale of each group, and a zero that is one of its sixteen codes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from ouzel.quantization.grid import LARGEST_CODE, Grid
from ouzel.quantization.search import blocks, fit

__all__ = ["integer_zero"]

#: shares of a group's range, below and above nothing, that are tried: what lies outside is clipped
_SHARES = (1.0, 0.92, 0.84, 0.76, 0.68)


def integer_zero(weight: Tensor, group: int, *, importance: Tensor | None = None, search: bool = True) -> Grid:
    """Sixteen equal steps that nothing is one of: w = (code - zero) * scale, scale a value of bfloat16.

    :param importance: [K], by which the squared error of each input counts; its mean square, as calibration finds it
    :param search: look for the range with the least error; otherwise it is from the smallest value to the largest
    :raises ConfigError: when the group doesn't divide the weight's width, or importance isn't one number an input
    """

    # weight: [N, K] of any floating-point type
    def quantize(grouped: Tensor, factors: Tensor | None) -> Grid:
        low, high = grouped.aminmax(dim=-1)
        low, high = low.clamp(max=0), high.clamp(min=0)
        return fit(grouped, factors, _grid_of(low, high), _candidates(low, high) if search else ())

    return blocks(weight, group, importance, quantize)


def _grid_of(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    # low ≤ 0 and high ≥ 0: [R, G] float32
    scale = (high - low) / LARGEST_CODE
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    return scale, (-low / scale).round_().clamp_(0, LARGEST_CODE)


def _candidates(low: Tensor, high: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    for below, above in product(_SHARES, _SHARES):
        yield _grid_of(low * below, high * above)
