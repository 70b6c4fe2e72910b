"""The grid of GPTQ checkpoints: the same zero, 8, everywhere, so that a group has nothing but its scale."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ouzel.quantization.grid import LARGEST_CODE, MIDDLE, Grid
from ouzel.quantization.search import blocks, fit

__all__ = ["symmetric"]

#: Steps between nothing and a group's largest value that are tried. Codes reach one step further down than up, so the
#: scale may be negative: then the largest value is eight steps from nothing, be it positive or not.
_REACHES = tuple(sign * (5.0 + 0.5 * step) for step in range(9) for sign in (1, -1))


def symmetric(weight: Tensor, group: int, *, importance: Tensor | None = None, search: bool = True) -> Grid:
    """The nearest of sixteen values around 8, in steps that are `scale` of each group, a value of bfloat16.

    :param importance: [K], by which the squared error of each input counts; its mean square, as calibration finds it
    :param search: look for the scale with the least error; otherwise a group's largest value is 7.5 steps from nothing
    :raises ConfigError: when the group doesn't divide the weight's width, or importance isn't one number an input
    """

    # weight: [N, K] of any floating-point type
    def quantize(grouped: Tensor, factors: Tensor | None) -> Grid:
        largest = grouped.abs().amax(-1)
        middle = torch.full_like(largest, MIDDLE)
        plain = largest * (2 / LARGEST_CODE)
        return fit(grouped, factors, (plain, middle), _candidates(largest, middle) if search else ())

    return blocks(weight, group, importance, quantize)


def _candidates(largest: Tensor, middle: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    # largest and middle: [R, G] float32
    some = torch.where(largest > 0, largest, torch.ones_like(largest))
    for reach in _REACHES:
        yield some / reach, middle
