"""Grids as the tensors of public four-bit checkpoints, and back.

Both keep eight codes in an int32 and transpose the weight. GPTQ (AutoGPTQ's first format): eight inputs of one output,
lowest bits first; zeros are stored less one. AWQ (AutoAWQ's `GEMM` version): eight outputs of one input, in the order
0 2 4 6 1 3 5 7 from the lowest bits; zeros as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ouzel.errors import CheckpointError, ConfigError
from ouzel.quantization.grid import Grid

__all__ = ["pack_awq", "pack_gptq", "unpack_awq", "unpack_gptq"]

#: codes in an int32
PACKED = 8
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def pack_gptq(grid: Grid) -> dict[str, Tensor]:
    """`qweight` [K/8, N] int32, `qzeros` [K/g, N/8] int32, `scales` [K/g, N] bfloat16 and `g_idx` [K] int32.

    :raises ConfigError: when a zero isn't whole and 1 to 16, or a size isn't a multiple of 8
    """
    _check(grid, lowest=1)
    width = grid.codes.shape[1]
    return {
        "qweight": _pack(grid.codes, range(PACKED)).t().contiguous(),
        "qzeros": _pack(grid.zero.t() - 1, range(PACKED)),
        "scales": grid.scale.t().bfloat16().contiguous(),
        "g_idx": torch.arange(width, dtype=torch.int32) // grid.group,
    }


def unpack_gptq(tensors: Mapping[str, Tensor]) -> Grid:
    """
    :raises CheckpointError: when the inputs' groups are in another order than the inputs (`desc_act`)
    """
    codes = _unpack(tensors["qweight"].t(), range(PACKED))
    zero = _unpack(tensors["qzeros"], range(PACKED)).t().float() + 1
    group = codes.shape[1] // zero.shape[1]
    order = tensors.get("g_idx")
    if order is not None and not torch.equal(order.long(), torch.arange(codes.shape[1]) // group):
        raise CheckpointError("g_idx puts inputs into groups out of order (desc_act); expected groups of neighbours")
    return Grid(codes, tensors["scales"].t().float().contiguous(), zero.contiguous())


def pack_awq(grid: Grid) -> dict[str, Tensor]:
    """`qweight` [K, N/8] int32, `qzeros` [K/g, N/8] int32 and `scales` [K/g, N] bfloat16.

    :raises ConfigError: when a zero isn't whole and 0 to 15, or a size isn't a multiple of 8
    """
    _check(grid, lowest=0)
    return {
        "qweight": _pack(grid.codes.t(), _AWQ_ORDER),
        "qzeros": _pack(grid.zero.t(), _AWQ_ORDER),
        "scales": grid.scale.t().bfloat16().contiguous(),
    }


def unpack_awq(tensors: Mapping[str, Tensor]) -> Grid:
    """The grid that `pack_awq` packed."""
    codes, zero = (_unpack(tensors[name], _AWQ_ORDER).t().contiguous() for name in ("qweight", "qzeros"))
    return Grid(codes, tensors["scales"].t().float().contiguous(), zero.float())


def _check(grid: Grid, lowest: int) -> None:
    rows, width = grid.codes.shape
    if rows % PACKED or width % PACKED:
        raise ConfigError(f"a layer of {rows} × {width} can't be packed; expected multiples of {PACKED}")
    if not torch.equal(grid.zero, grid.zero.round().clamp(lowest, lowest + 15)):
        raise ConfigError(
            f"a grid's zeros aren't whole numbers from {lowest} to {lowest + 15}, as this format has them"
        )


def _pack(values: Tensor, order: tuple[int, ...] | range) -> Tensor:
    # values: [R, C] whole numbers 0 to 15 → [R, C / 8] int32; the order is that of the values from the lowest bits up
    eights = values.to(torch.int32).reshape(len(values), -1, PACKED)
    packed = torch.zeros(eights.shape[:2], dtype=torch.int32)
    for place, which in enumerate(order):
        packed |= eights[..., which] << (4 * place)
    return packed


def _unpack(packed: Tensor, order: tuple[int, ...] | range) -> Tensor:
    # packed: [R, C / 8] int32 → [R, C] uint8
    values = torch.empty(*packed.shape, PACKED, dtype=torch.uint8)
    for place, which in enumerate(order):
        values[..., which] = ((packed >> (4 * place)) & 15).to(torch.uint8)
    return values.view(len(packed), -1)
