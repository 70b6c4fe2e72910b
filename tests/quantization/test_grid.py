"""Four-bit grids."""

from __future__ import annotations

import pytest
import torch

from ouzel.errors import ConfigError
from ouzel.quantization.grid import GROUPS, Grid, asymmetric, group_size


@pytest.mark.parametrize(("width", "most", "group"), [(2048, 128, 128), (2048, 32, 32), (576, 128, 64), (96, 128, 32)])
def test_the_largest_group_that_divides_the_width(width: int, most: int, group: int) -> None:
    assert group_size(width, most) == group


@pytest.mark.parametrize(("width", "most"), [(100, 128), (48, 32), (8, 128)])
def test_a_width_that_no_group_divides(width: int, most: int) -> None:
    with pytest.raises(ConfigError, match=f"{width} inputs.*multiple of 32"):
        group_size(width, most)


def test_a_group_must_divide_the_width() -> None:
    with pytest.raises(ConfigError, match="128 don't divide a layer of 576"):
        asymmetric(torch.zeros(2, 576), 128)


def test_a_grid_by_hand() -> None:
    codes = torch.tensor([[0, 3, 8, 15]], dtype=torch.uint8)
    grid = Grid(codes, scale=torch.tensor([[0.5, 2.0]]), zero=torch.tensor([[3.0, 8.5]]))
    assert grid.group == 2
    assert grid.dequantize().tolist() == [[-1.5, 0.0, -1.0, 13.0]]
    assert grid.offset.tolist() == [[2.5, -1.0]]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("shift", [0.0, 0.3, -5.0])
def test_no_value_moves_by_more_than_half_a_step(group: int, shift: float) -> None:
    weight = torch.randn(64, 384, generator=torch.Generator().manual_seed(1)) + shift
    grid = asymmetric(weight, group)
    # Rounding scale and offset to bfloat16 moves the ends of the range by up to 2^-9 of themselves and eight scales.
    bound = grid.scale * 0.5 + (grid.offset.abs() + 8 * grid.scale) * 2**-8
    error = (grid.dequantize() - weight).abs().view(64, -1, group).amax(-1)
    assert (error <= bound).all()


def test_scale_and_offset_are_values_of_bfloat16() -> None:
    weight = torch.randn(256, 128, generator=torch.Generator().manual_seed(2)) + torch.linspace(-3, 3, 256)[:, None]
    weight[0] -= (weight[0].amax() + weight[0].amin()) / 2  # an offset of all but nothing
    grid = asymmetric(weight, 32)
    assert torch.equal(grid.scale, grid.scale.bfloat16().float())
    offset = grid.offset.bfloat16().float()
    assert torch.equal(grid.zero, 8 - offset / grid.scale)
    assert (offset - grid.offset).abs().max() <= 1e-5


def test_a_group_of_equal_values() -> None:
    for value in (0.75, 0.0, 0.02, 0.2, -0.05, -3e-5):
        grid = asymmetric(torch.full((1, 32), value), 32)
        stored = torch.tensor(value).bfloat16().float()
        torch.testing.assert_close(grid.dequantize(), stored.expand(1, 32), rtol=1e-6, atol=0)
        assert torch.equal(grid.offset.bfloat16().float(), stored.view(1, 1))
