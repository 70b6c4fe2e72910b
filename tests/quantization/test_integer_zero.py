from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ouzel.quantization.integer_zero import integer_zero
from ouzel.quantization.symmetric import symmetric


def noise(rows: int, width: int) -> Tensor:
    """Values of which more are above nothing than below."""
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(1)) + 0.5


def error(weight: Tensor, value: Tensor, importance: Tensor | float = 1.0) -> float:
    return float(((weight - value).square() * importance).sum())


def test_what_lies_on_a_grid_is_kept() -> None:
    codes = torch.arange(32).remainder(16).repeat(4, 1)
    zero = torch.tensor([0.0, 3.0, 8.0, 15.0])[:, None]
    grid = integer_zero((codes - zero) * 0.25, 32)
    assert torch.equal(grid.zero, zero)
    assert torch.equal(grid.codes.long(), codes)
    assert grid.scale.tolist() == [[0.25]] * 4


def test_zeros_are_codes() -> None:
    weight = noise(64, 256) + torch.linspace(-20, 20, 64)[:, None]
    zero = integer_zero(weight, 64).zero
    assert torch.equal(zero, zero.round()) and zero.min() == 0 and zero.max() == 15


@pytest.mark.parametrize("group", [32, 128])
def test_no_group_is_worse_for_the_search(group: int) -> None:
    weight = noise(64, 512)
    plain, found = (integer_zero(weight, group, search=search).dequantize() for search in (False, True))
    by_group = [(value - weight).square().view(64, -1, group).sum(-1) for value in (plain, found)]
    assert (by_group[1] - by_group[0]).max() <= 1e-6
    assert error(weight, found) < 0.93 * error(weight, plain)


def test_it_has_less_error_than_a_symmetric_grid() -> None:
    weight = noise(64, 512)
    assert error(weight, integer_zero(weight, 64).dequantize()) < 0.9 * error(
        weight, symmetric(weight, 64).dequantize()
    )


def test_importance_lowers_the_error_that_counts() -> None:
    weight = noise(64, 512)
    importance = torch.rand(512, generator=torch.Generator().manual_seed(3)) ** 4 + 1e-3
    without, with_it = integer_zero(weight, 128), integer_zero(weight, 128, importance=importance)
    assert error(weight, with_it.dequantize(), importance) < 0.95 * error(weight, without.dequantize(), importance)


def test_nothing_stays_nothing() -> None:
    assert integer_zero(torch.zeros(1, 32), 32).dequantize().tolist() == [[0.0] * 32]
