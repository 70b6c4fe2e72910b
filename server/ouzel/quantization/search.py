"""The scale of each group that fits its values best, in the sense of (weighted) squares.

For given codes the best scale has a closed form, so a search goes over ways to choose the codes: each candidate grid
gives codes, these give the scale. llama.cpp chooses the scales of its quants in the same way (`make_qx_quants`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ouzel.errors import ConfigError
from ouzel.quantization.grid import GROUPS, LARGEST_CODE, Grid

__all__ = ["blocks", "fit", "weighted_error"]

#: values that are worked on at a time: what a core's cache holds
_BLOCK = 1 << 17

#: grids of groups [R, G, g]: a scale and a zero [R, G] each
Grids = Iterable[tuple[Tensor, Tensor]]


def blocks(
    weight: Tensor, group: int, importance: Tensor | None, quantize: Callable[[Tensor, Tensor | None], Grid]
) -> Grid:
    """`quantize` rows [R, G, g] with importance [G, g], a few rows at a time, and put the grids together.

    :raises ConfigError: when the group doesn't divide the weight's width, or importance isn't one number an input
    """
    # weight: [N, K] of any floating-point type; importance: [K]
    rows, width = weight.shape
    if width % group:
        raise ConfigError(
            f"groups of {group} don't divide a layer of {width} inputs; expected one of {GROUPS} that does"
        )
    if importance is not None and importance.shape != (width,):
        raise ConfigError(f"importance has the shape {tuple(importance.shape)}; expected ({width},), one an input")
    factors = None if importance is None else importance.float().view(width // group, group)
    step = max(1, _BLOCK // width)
    found = [quantize(part.float().view(len(part), -1, group), factors) for part in torch.split(weight, step)]
    return Grid(*(torch.cat([getattr(grid, name) for grid in found]) for name in ("codes", "scale", "zero")))


def fit(grouped: Tensor, importance: Tensor | None, plain: tuple[Tensor, Tensor], candidates: Grids) -> Grid:
    """The best grid of each group: of what the candidates lead to, or the plain one where none is better."""
    # grouped: [R, G, g] float32, importance: [G, g]
    weighted = grouped if importance is None else grouped * importance
    best_gain = torch.zeros_like(plain[0])
    best_scale, best_zero = plain[0].clone(), plain[1].clone()
    for scale, zero in candidates:
        steps = _steps(grouped, scale, zero)
        cross = (weighted * steps).sum(-1)
        square = (steps * steps if importance is None else steps * steps * importance).sum(-1).clamp_(min=1e-30)
        # With the best scale, cross / square, the error is Σ x² less this.
        gain = cross * cross / square
        better = gain > best_gain
        best_gain = torch.where(better, gain, best_gain)
        best_scale = torch.where(better, cross / square, best_scale)
        best_zero = torch.where(better, zero, best_zero)
    first, second = (_grid(grouped, scale, zero) for scale, zero in (plain, (best_scale, best_zero)))
    keep = weighted_error(grouped, first, importance) <= weighted_error(grouped, second, importance)
    return _chosen(keep, first, second)


def weighted_error(grouped: Tensor, grid: Grid, importance: Tensor | None) -> Tensor:
    """Σ importance · (w - its value on the grid)² of each group, [R, G]."""
    # grouped: [R, G, g] float32, importance: [G, g]
    square = (grouped - grid.dequantize().view_as(grouped)).square_()
    return (square if importance is None else square * importance).sum(-1)


def _steps(grouped: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Code - zero of each value, in whole steps."""
    offset = zero[..., None]
    return (grouped / scale[..., None]).add_(offset).round_().clamp_(0, LARGEST_CODE).sub_(offset)


def _grid(grouped: Tensor, scale: Tensor, zero: Tensor) -> Grid:
    """With scales that bfloat16 holds, for so they are stored, and codes nearest on what is stored."""
    stored = scale.bfloat16().float()
    stored = torch.where(stored == 0, torch.ones_like(stored), stored)
    codes = _steps(grouped, stored, zero) + zero[..., None]
    return Grid(codes.to(torch.uint8).view(len(grouped), -1), stored, zero)


def _chosen(first_wins: Tensor, first: Grid, second: Grid) -> Grid:
    shape = (*first_wins.shape, first.group)
    codes = torch.where(first_wins[..., None], first.codes.view(shape), second.codes.view(shape))
    scale, zero = (torch.where(first_wins, getattr(first, name), getattr(second, name)) for name in ("scale", "zero"))
    return Grid(codes.view(len(first_wins), -1), scale, zero)
