"""Weights in four bits as they are served."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ouzel.errors import ConfigError
from ouzel.quantization import packed_weight
from ouzel.quantization.grid import GROUPS, asymmetric
from ouzel.quantization.packed_weight import PackedWeight, kernel
from ouzel.quantization.tinygemm import SINGLE_ROWS, layout

#: rows and width; some in part of a block, one wider than a stripe
SHAPES = [(64, 128), (192, 576), (100, 64), (7, 32), (1100, 1024)]
#: of one rounding to bfloat16, relative to the largest value
ROUNDING = 2**-8


def noise(rows: int, width: int, seed: int = 1) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def fitting(width: int) -> list[int]:
    return [group for group in GROUPS if width % group == 0]


@pytest.mark.parametrize(("rows", "width"), SHAPES)
def test_what_is_packed_is_the_grid_bit_for_bit(rows: int, width: int) -> None:
    for group in fitting(width):
        grid = asymmetric(noise(rows, width) + 0.1, group)
        found = PackedWeight.of(noise(rows, width) + 0.1, group).grid()
        assert found.group == group
        assert torch.equal(found.codes, grid.codes)
        assert torch.equal(found.scale, grid.scale)
        assert torch.equal(found.zero, grid.zero)
        assert torch.equal(found.dequantize(), grid.dequantize())


@pytest.mark.parametrize(("rows", "width"), SHAPES)
@pytest.mark.parametrize("steps", [1, 2, SINGLE_ROWS, SINGLE_ROWS + 1, 40])
def test_each_path_multiplies_by_the_grid(rows: int, width: int, steps: int) -> None:
    x = noise(steps, width, seed=2).bfloat16()
    for group in fitting(width):
        packed = PackedWeight.of(noise(rows, width), group)
        exact = x.double() @ packed.grid().dequantize().double().T
        y = packed.linear(x)
        assert y.dtype == torch.bfloat16 and y.shape == (steps, rows)
        # Each weight is rounded once on the wide path, and the sum once more on both.
        assert (y.double() - exact).abs().max() <= exact.abs().max() * 2 * ROUNDING


def test_a_row_is_the_same_in_a_step_of_few() -> None:
    packed, x = PackedWeight.of(noise(192, 576), 64), noise(SINGLE_ROWS, 576).bfloat16()
    assert torch.equal(packed.linear(x), torch.stack([packed.linear(row) for row in x]))


def test_a_weight_unpacks_to_the_nearest_bfloat16() -> None:
    packed = PackedWeight.of(noise(192, 576), 64)
    unit = torch.eye(576).bfloat16()
    grid = packed.grid()
    # Of bfloat16, so the products are exact in float32; a zero in float32 would move some by its own rounding.
    scale, offset = (part.bfloat16().float()[..., None] for part in (grid.scale, grid.offset))
    nearest = ((grid.codes.view(192, -1, 64).float() - 8) * scale + offset).flatten(1).bfloat16()
    assert torch.equal(packed.linear(unit), nearest.T)
    assert torch.equal(packed.lookup(torch.arange(192)), nearest)


def test_other_types_and_shapes_come_back_as_they_are() -> None:
    packed, x = PackedWeight.of(noise(100, 64), 64), noise(6, 64)
    assert packed.linear(x.view(2, 3, 64)).shape == (2, 3, 100)
    assert packed.linear(x).dtype == torch.float32
    assert torch.equal(packed.linear(x), packed.linear(x.bfloat16()).float())
    assert packed.lookup(torch.tensor([[3, 99], [0, 3]])).shape == (2, 2, 64)
    assert packed.linear(x[:0]).shape == (0, 100)


def test_rows_may_come_in_any_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = noise(200, 64)
    whole = PackedWeight.of(weight, 32)
    monkeypatch.setattr(packed_weight, "BLOCK_VALUES", 50 * 64)
    pieces = PackedWeight.empty(200, 64, 32)
    for first, last in ((130, 200), (0, 10), (10, 130)):
        pieces.quantize(first, weight[first:last])
    assert torch.equal(pieces.packed, whole.packed)
    assert torch.equal(pieces.scales, whole.scales)


def test_an_unknown_kernel() -> None:
    with pytest.raises(ConfigError, match="'none-such' is not one of tinygemm"):
        kernel("none-such")


@pytest.mark.parametrize("instructions", ["avx2", "default"])
def test_machines_that_pack_otherwise(instructions: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import test_packed_weight as tests\n"
        "tests.test_what_is_packed_is_the_grid_bit_for_bit(192, 576)\n"
        "tests.test_each_path_multiplies_by_the_grid(100, 64, 1)\n"
        "tests.test_each_path_multiplies_by_the_grid(192, 576, 40)\n"
        "tests.test_a_weight_unpacks_to_the_nearest_bfloat16()\n"
        "print(tests.layout())"
    )
    environment = os.environ | {"ATEN_CPU_CAPABILITY": instructions}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert "Layout(block=" in run.stdout
    assert layout().block in (32, 64)
