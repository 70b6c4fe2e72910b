"""PyTorch's four-bit product for CPUs (`_weight_int4pack_mm_for_cpu`), and how its weights lie in memory.

Outputs lie in blocks: for each input, a block's codes stand together, two in a byte. How many outputs a block has, and
which two share a byte, depends on the instructions that torch found on the machine, so it is read off a weight that is
packed here once; what is written to disk never has this layout.

The product of one row is fast in bfloat16 alone (float32 is a loop without vectors, a hundred times slower), and its
time grows with the rows: wider steps unpack the weight to bfloat16, a stripe that stays in the cache at a time, and
multiply as always. Several rows at once are never given to it: on machines with AMX such a call, followed by vLLM's
attention, died of an illegal instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ouzel.errors import EngineError
from ouzel.quantization.grid import MIDDLE

__all__ = ["Layout", "Tinygemm", "layout"]

_aten: Any = torch.ops.aten
#: [1, K] bfloat16, packed, group, scales -> [1, N] bfloat16
_single: Callable[[Tensor, Tensor, int, Tensor], Tensor] = _aten._weight_int4pack_mm_for_cpu.default
#: A weight's rows are filled up to a multiple of this, which every machine's block divides.
ROWS = 64
#: Up to here a step's rows are multiplied one after the other; unpacking takes as long as about twenty of them.
SINGLE_ROWS = 16
#: in a word of sixteen codes
_EACH_BIT_3 = -0x7777777777777778
#: values that are unpacked at a time: 4 MiB in float32
_STRIPE = 1 << 20


@dataclass(frozen=True, slots=True)
class Layout:
    """[N / block, K, block / 2] bytes; bits 0-3 are the outputs `low` of a block, bits 4-7 the outputs `high`."""

    block: int
    low: slice
    high: slice


@cache
def layout() -> Layout:
    """How torch packs on this machine.

    :raises EngineError: when it is no layout of this kind
    """
    rows, width = 2 * ROWS, 32
    number = torch.arange(rows, dtype=torch.int32)[:, None].expand(rows, width)
    # A code has four bits, a row's number seven: it is packed in two halves, and put together in their places.
    first, second = (_pack((number >> shift) & 15).long() for shift in (0, 4))
    low = ((first & 15) | (second & 15) << 4).view(-1)
    high = ((first >> 4) | (second >> 4) << 4).view(-1)
    for block in (16, 32, 64, 128):
        lows, highs = (half.view(-1, width, block // 2)[0, 0].tolist() for half in (low, high))
        if sorted(lows + highs) != list(range(block)):
            continue
        found = Layout(block, _slice(lows), _slice(highs))
        codes = torch.randint(16, (rows, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        if torch.equal(_codes(_pack(codes.int()), found), codes):
            return found
    raise EngineError(f"torch {torch.__version__} packs four-bit weights in a layout unknown here")


def _slice(places: list[int]) -> slice:
    return slice(places[0], places[-1] + 1, places[1] - places[0])


def _pack(codes: Tensor) -> Tensor:
    # codes: [N, K] int32 -> [N, K/2] uint8
    packed: Tensor = _aten._convert_weight_to_int4pack_for_cpu(codes, 1)
    return packed


def _codes(packed: Tensor, form: Layout) -> Tensor:
    # packed: [N, K/2] uint8 -> [N, K] uint8
    rows, width = packed.shape[0], packed.shape[1] * 2
    blocks = packed.view(-1, width, form.block // 2).transpose(1, 2)
    codes = torch.empty(rows // form.block, form.block, width, dtype=torch.uint8)
    codes[:, form.low] = blocks & 15
    codes[:, form.high] = blocks >> 4
    return codes.view(rows, width)


class Tinygemm:
    """The kernel of today: `packed` is [N, K/2] uint8, `scales` [K/group, N, 2] bfloat16, scale and offset."""

    name = "tinygemm"
    rows = ROWS

    def pack(self, codes: Tensor) -> Tensor:
        """[N, K] uint8 as [N, K/2]; N is a multiple of `rows`."""
        return _pack(codes.int())

    def codes(self, packed: Tensor) -> Tensor:
        """What was packed: [N, K] uint8."""
        return _codes(packed, layout())

    def linear(self, x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
        # x: [M, K] bfloat16 -> [M, N] bfloat16
        rows, width = x.shape
        if rows > SINGLE_ROWS:
            return _wide(x, packed, scales)
        group = width // scales.shape[0]
        if rows == 1:
            return _single(x, packed, group, scales)
        y = x.new_empty(rows, packed.shape[0])
        for one, into in zip(x[:, None], y, strict=True):
            into.copy_(_single(one, packed, group, scales)[0])
        return y

    def lookup(self, ids: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
        # ids: [M] int64 -> [M, K] bfloat16
        form = layout()
        width = packed.shape[1] * 2
        place = torch.empty(form.block, dtype=torch.int64)
        shift = torch.empty(form.block, dtype=torch.uint8)
        for part, bits in ((form.low, 0), (form.high, 4)):
            place[part], shift[part] = torch.arange(form.block // 2), bits
        within = ids % form.block
        pairs = packed.view(-1, width, form.block // 2)[ids // form.block, :, place[within]]
        steps = (((pairs >> shift[within][:, None]) & 15).view(torch.int8) - MIDDLE).bfloat16()
        scale, offset = scales[:, ids].permute(2, 1, 0)[..., None]  # [M, K/group, 1] each
        return torch.addcmul(offset, steps.reshape(len(ids), scales.shape[0], -1), scale).reshape(len(ids), width)


def _wide(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    # x: [M, K] bfloat16 -> [M, N] bfloat16
    form, (outputs, width) = layout(), (packed.shape[0], x.shape[1])
    y = x.new_empty(len(x), outputs)
    stripe = max(ROWS, _STRIPE // width // ROWS * ROWS)
    room = torch.empty(width * stripe, dtype=torch.float32)
    for first in range(0, outputs, stripe):
        last = min(first + stripe, outputs)
        wide = room[: width * (last - first)].view(width, 2, -1)
        _unpack(packed[first:last], scales[:, first:last], wide, form)
        halves = torch.mm(x, wide.flatten(1).bfloat16()).view(len(x), 2, -1, form.block // 2)
        blocks = y[:, first:last].view(len(x), -1, form.block)
        blocks[:, :, form.low], blocks[:, :, form.high] = halves.unbind(1)
    return y


def _unpack(packed: Tensor, scales: Tensor, weight: Tensor, form: Layout) -> None:
    """All low outputs of the blocks, then all high ones, so that each operation has long runs.

    In float32, whose operations are quicker than those of bfloat16, also with a rounding at the end.
    """
    # packed: [n, K/2] uint8, scales: [K/group, n, 2] -> weight: [K, 2, n/2] float32
    width = len(weight)
    words = packed.view(torch.int64).view(-1, width, form.block // 16).transpose(0, 1).contiguous()
    # Bit 3 turned over makes a code, as a signed number of four bits, its distance from the middle.
    signed = (words.view(width, -1) ^ _EACH_BIT_3).view(torch.int8)
    weight[:, 0] = (signed << 4) >> 4
    weight[:, 1] = signed >> 4
    groups = scales.shape[0]
    blocks = scales.float().view(groups, -1, form.block, 2).permute(3, 0, 1, 2)  # [2, K/group, n/block, block]
    halves = (blocks[..., part].flatten(2) for part in (form.low, form.high))
    scale, offset = torch.cat(tuple(halves), -1)[:, :, None]  # [K/group, 1, n] each
    grouped = weight.view(groups, -1, scales.shape[1])
    torch.addcmul(offset, grouped, scale, out=grouped)
