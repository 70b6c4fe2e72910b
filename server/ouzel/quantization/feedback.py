"""Rounding with feedback: what rounding one input did to the outputs is made good by the inputs not rounded yet.

GPTQ (Frantar et al. 2023, arXiv 2210.17323), in the order of the inputs, with a grid chosen for each group when its
turn comes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ouzel.quantization.grid import LARGEST_CODE, Grid

__all__ = ["with_feedback"]

#: of the mean of the diagonal, added to it: a short text leaves some directions all but unseen
_DAMPING = 0.05


def with_feedback(weight: Tensor, group: int, moment: Tensor, choose: Callable[[Tensor, Tensor], Grid]) -> Grid:
    """A grid of `weight` whose outputs differ least for inputs of this second moment.

    :param moment: [K, K] float32
    :param choose: from one group of the weight [N, g] and the importance of its inputs [g] to its grid
    """
    # weight: [N, K] of any floating-point type
    left = weight.float().clone()
    spread = _spread(moment)
    importance = moment.diagonal()
    found = []
    for start in range(0, left.shape[1], group):
        end = start + group
        grid = choose(left[:, start:end], importance[start:end])
        codes, errors = _round_group(left[:, start:end], grid, spread[start:end, start:end])
        left[:, end:] -= errors @ spread[start:end, end:]
        found.append(Grid(codes, grid.scale, grid.zero))
    return Grid(*(torch.cat([getattr(grid, name) for grid in found], 1) for name in ("codes", "scale", "zero")))


def _spread(moment: Tensor) -> Tensor:
    """[K, K]: row k says how an error of input k is made good by those after it; the Cholesky factor of the inverse."""
    damped = moment.double().clone()
    # Where all inputs are nothing, any rounding is as good.
    damped.diagonal().add_(_DAMPING * damped.diagonal().mean() + 1e-12)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    return torch.linalg.cholesky(inverse, upper=True).float()


def _round_group(weight: Tensor, grid: Grid, spread: Tensor) -> tuple[Tensor, Tensor]:
    """Codes [N, g] uint8, and errors [N, g] by which the inputs after the group are corrected."""
    # weight: [N, g] float32, spread: [g, g]
    left = weight.clone()
    codes, errors = torch.empty(weight.shape, dtype=torch.uint8), torch.empty_like(weight)
    scale, zero = grid.scale[:, 0], grid.zero[:, 0]
    for column in range(left.shape[1]):
        code = (left[:, column] / scale + zero).round_().clamp_(0, LARGEST_CODE)
        error = (left[:, column] - (code - zero) * scale) / spread[column, column]
        left[:, column:] -= error[:, None] * spread[column, column:]
        codes[:, column], errors[:, column] = code.to(torch.uint8), error
    return codes, errors
