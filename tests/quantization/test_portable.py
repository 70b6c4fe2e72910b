"""Four-bit weights on disk."""

from __future__ import annotations

import torch

from ouzel.quantization.grid import asymmetric
from ouzel.quantization.portable import from_portable, join_codes, split_codes, to_portable


def test_two_codes_share_a_byte() -> None:
    codes = torch.tensor([[1, 2, 15, 0]], dtype=torch.uint8)
    assert join_codes(codes).tolist() == [[0x21, 0x0F]]
    assert torch.equal(split_codes(join_codes(codes)), codes)


def test_a_grid_comes_back_bit_for_bit() -> None:
    grid = asymmetric(torch.randn(16, 192, generator=torch.Generator().manual_seed(1)) + 0.2, 64)
    tensors = to_portable(grid)
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {
        "qweight": (16, 96),
        "scales": (16, 3),
        "offsets": (16, 3),
    }
    found = from_portable(**tensors)
    assert torch.equal(found.codes, grid.codes)
    assert torch.equal(found.scale, grid.scale)
    assert torch.equal(found.zero, grid.zero)
