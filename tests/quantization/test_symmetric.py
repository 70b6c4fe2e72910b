from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ouzel.errors import ConfigError
from ouzel.quantization.symmetric import symmetric


def noise(rows: int, width: int) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(1))


def error(weight: Tensor, value: Tensor, importance: Tensor | float = 1.0) -> float:
    return float(((weight - value).square() * importance).sum())


def test_without_a_search_the_largest_value_is_seven_and_a_half_steps_away() -> None:
    weight = torch.zeros(1, 32)
    weight[0, :4] = torch.tensor([-7.5, 7.5, 3.0, 0.6])
    grid = symmetric(weight, 32, search=False)
    assert grid.scale.tolist() == [[1.0]]
    assert grid.zero.tolist() == [[8.0]]
    assert grid.codes[0, :5].tolist() == [0, 15, 11, 9, 8]


def test_what_lies_on_a_grid_is_found() -> None:
    codes = torch.randint(0, 16, (16, 64), generator=torch.Generator().manual_seed(2))
    codes[:, ::32] = 0  # the end that a group's scale is known by
    scale = torch.tensor([0.25, -0.5]).repeat(16, 1)
    weight = (codes - 8.0) * scale.repeat_interleave(32, 1)
    assert torch.equal(symmetric(weight, 32).dequantize(), weight)
    assert not torch.equal(symmetric(weight, 32, search=False).dequantize(), weight)


@pytest.mark.parametrize("group", [32, 128])
def test_no_group_is_worse_for_the_search(group: int) -> None:
    weight = noise(64, 512)
    plain, found = (symmetric(weight, group, search=search).dequantize() for search in (False, True))
    by_group = [(value - weight).square().view(64, -1, group).sum(-1) for value in (plain, found)]
    assert (by_group[1] - by_group[0]).max() <= 1e-6
    assert error(weight, found) < 0.8 * error(weight, plain)


def test_importance_lowers_the_error_that_counts() -> None:
    weight = noise(64, 512)
    importance = torch.rand(512, generator=torch.Generator().manual_seed(3)) ** 4 + 1e-3
    without, with_it = symmetric(weight, 128), symmetric(weight, 128, importance=importance)
    assert error(weight, with_it.dequantize(), importance) < 0.95 * error(weight, without.dequantize(), importance)
    assert error(weight, with_it.dequantize()) > error(weight, without.dequantize())


def test_scales_are_values_of_bfloat16() -> None:
    scale = symmetric(noise(8, 128), 32).scale
    assert torch.equal(scale, scale.bfloat16().float())


def test_many_rows_are_the_rows_alone() -> None:
    weight = noise(700, 256)
    whole = symmetric(weight, 128)
    assert torch.equal(whole.codes[600:], symmetric(weight[600:], 128).codes)
    assert whole.codes.shape == (700, 256) and whole.scale.shape == (700, 2)


def test_nothing_stays_nothing() -> None:
    assert symmetric(torch.zeros(1, 32), 32).dequantize().tolist() == [[0.0] * 32]


def test_a_group_must_divide_the_width() -> None:
    with pytest.raises(ConfigError, match="128 don't divide a layer of 576"):
        symmetric(torch.zeros(2, 576), 128)


def test_importance_is_a_number_an_input() -> None:
    with pytest.raises(ConfigError, match=r"shape \(32,\); expected \(64,\)"):
        symmetric(torch.zeros(2, 64), 32, importance=torch.ones(32))
