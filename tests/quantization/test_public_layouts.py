"""Against the layouts as they are written down, read bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ouzel.errors import CheckpointError, ConfigError
from ouzel.quantization.grid import Grid
from ouzel.quantization.public_layouts import pack_awq, pack_gptq, unpack_awq, unpack_gptq

ROWS, WIDTH, GROUP = 16, 64, 32


def some_grid(lowest_zero: int) -> Grid:
    chance = torch.Generator().manual_seed(1)
    return Grid(
        torch.randint(0, 16, (ROWS, WIDTH), generator=chance, dtype=torch.uint8),
        torch.rand(ROWS, WIDTH // GROUP, generator=chance).bfloat16().float(),
        torch.randint(lowest_zero, lowest_zero + 16, (ROWS, WIDTH // GROUP), generator=chance).float(),
    )


def nibble(word: int, place: int) -> int:
    return ((word & 0xFFFFFFFF) >> (4 * place)) & 15


def test_gptq_has_eight_inputs_in_a_word() -> None:
    grid = some_grid(1)
    packed = pack_gptq(grid)
    assert {name: tuple(tensor.shape) for name, tensor in packed.items()} == {
        "qweight": (WIDTH // 8, ROWS),
        "qzeros": (WIDTH // GROUP, ROWS // 8),
        "scales": (WIDTH // GROUP, ROWS),
        "g_idx": (WIDTH,),
    }
    words, zeros = packed["qweight"].tolist(), packed["qzeros"].tolist()
    for row in range(ROWS):
        for column in range(WIDTH):
            assert nibble(words[column // 8][row], column % 8) == grid.codes[row, column]
        for group in range(WIDTH // GROUP):
            assert nibble(zeros[group][row // 8], row % 8) == grid.zero[row, group] - 1
            assert packed["scales"][group, row] == grid.scale[row, group]
    assert packed["g_idx"].tolist() == [column // GROUP for column in range(WIDTH)]


def test_awq_has_eight_outputs_in_a_word_even_ones_first() -> None:
    grid = some_grid(0)
    packed = pack_awq(grid)
    assert {name: tuple(tensor.shape) for name, tensor in packed.items()} == {
        "qweight": (WIDTH, ROWS // 8),
        "qzeros": (WIDTH // GROUP, ROWS // 8),
        "scales": (WIDTH // GROUP, ROWS),
    }
    words, zeros = packed["qweight"].tolist(), packed["qzeros"].tolist()
    places = {0: 0, 1: 4, 2: 1, 3: 5, 4: 2, 5: 6, 6: 3, 7: 7}
    for row in range(ROWS):
        for column in range(WIDTH):
            assert nibble(words[column][row // 8], places[row % 8]) == grid.codes[row, column]
        for group in range(WIDTH // GROUP):
            assert nibble(zeros[group][row // 8], places[row % 8]) == grid.zero[row, group]


@pytest.mark.parametrize(("pack", "unpack", "lowest"), [(pack_gptq, unpack_gptq, 1), (pack_awq, unpack_awq, 0)])
def test_each_comes_back(
    pack: Callable[[Grid], dict[str, Tensor]], unpack: Callable[[dict[str, Tensor]], Grid], lowest: int
) -> None:
    grid = some_grid(lowest)
    back = unpack(pack(grid))
    assert torch.equal(back.codes, grid.codes)
    assert torch.equal(back.scale, grid.scale)
    assert torch.equal(back.zero, grid.zero)


def test_groups_in_another_order_are_refused() -> None:
    packed = pack_gptq(some_grid(1))
    with pytest.raises(CheckpointError, match="desc_act"):
        unpack_gptq(packed | {"g_idx": packed["g_idx"].flip(0)})


def test_zeros_that_a_format_has_no_place_for_are_refused() -> None:
    grid = some_grid(0)
    with pytest.raises(ConfigError, match="from 1 to 16"):
        pack_gptq(grid)
    with pytest.raises(ConfigError, match="from 0 to 15"):
        pack_awq(Grid(grid.codes, grid.scale, grid.zero + 0.5))


def test_rows_that_fill_no_word_are_refused() -> None:
    grid = some_grid(0)
    with pytest.raises(ConfigError, match="12 × 64"):
        pack_awq(Grid(grid.codes[:12], grid.scale[:12], grid.zero[:12]))
