"""A weight in four bits as it is served: one copy of it, for single rows, for wide steps and for look-ups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ouzel.errors import ConfigError
from ouzel.quantization.grid import MIDDLE, Grid, asymmetric
from ouzel.quantization.tinygemm import Tinygemm

__all__ = ["DEFAULT_KERNEL", "Kernel", "PackedWeight", "kernel", "multiply"]

#: values that are quantized at a time, which bounds what loading takes beside the weights
BLOCK_VALUES = 1 << 22


class Kernel(Protocol):
    """How codes lie in memory, and what multiplies by them.

    `packed` is [N, K/2] uint8 in a layout of its own in which rows may be stored and replaced in runs of `rows`;
    `scales` is [K/group, N, 2] bfloat16, scale and offset: w = (code - 8) * scale + offset.
    """

    name: str
    #: outputs that lie together
    rows: int

    def pack(self, codes: Tensor) -> Tensor: ...

    def codes(self, packed: Tensor) -> Tensor: ...

    def linear(self, x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
        """[M, K] -> [M, N], both bfloat16."""
        ...

    def lookup(self, ids: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
        """The weight's rows: [M] int64 -> [M, K] bfloat16."""
        ...


DEFAULT_KERNEL = Tinygemm.name
_KERNELS: dict[str, Kernel] = {Tinygemm.name: Tinygemm()}


def kernel(name: str) -> Kernel:
    """
    :raises ConfigError: when there is none of that name
    """
    try:
        return _KERNELS[name]
    except KeyError:
        raise ConfigError(f"kernel {name!r} is not one of {', '.join(_KERNELS)}") from None


def multiply(x: Tensor, packed: Tensor, scales: Tensor, rows: int, name: str) -> Tensor:
    """`PackedWeight.linear` without the object: a step of one row does this for every layer."""
    # x: [M, width] bfloat16 -> [M, rows] bfloat16
    y = kernel(name).linear(x, packed, scales)
    return y if rows == y.shape[1] else y[:, :rows].contiguous()


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """[rows, width] in four bits. Behind the last row more are kept, all zero, up to a multiple of the kernel's."""

    packed: Tensor  # [N, width / 2] uint8
    scales: Tensor  # [width / group, N, 2] bfloat16
    rows: int
    kernel: str = DEFAULT_KERNEL

    @classmethod
    def empty(cls, rows: int, width: int, group: int, name: str = DEFAULT_KERNEL) -> PackedWeight:
        """Room for a weight, of which each row is to be stored."""
        run = kernel(name).rows
        held = -(-rows // run) * run
        packed = torch.empty(held, width // 2, dtype=torch.uint8, device="cpu")
        scales = torch.empty(width // group, held, 2, dtype=torch.bfloat16, device="cpu")
        packed[held - run :] = 0
        scales[:, rows:] = 0
        return cls(packed, scales, rows, name)

    @classmethod
    def of(cls, weight: Tensor, group: int, name: str = DEFAULT_KERNEL) -> PackedWeight:
        """Quantize a whole weight."""
        # weight: [rows, width] of any floating-point type
        rows, width = weight.shape
        made = cls.empty(rows, width, group, name)
        made.quantize(0, weight)
        return made

    @property
    def group(self) -> int:
        return self.packed.shape[1] * 2 // self.scales.shape[0]

    def quantize(self, first: int, weight: Tensor) -> None:
        """Quantize rows and store them from row `first` on, a block at a time."""
        # weight: [n, width] of any floating-point type
        step = max(1, BLOCK_VALUES // weight.shape[1])
        for start in range(0, len(weight), step):
            grid = asymmetric(weight[start : start + step], self.group)
            self.store_codes(first + start, grid.codes)
            self.store_scale(first + start, grid.scale)
            self.store_offset(first + start, grid.offset)

    def store_codes(self, first: int, codes: Tensor) -> None:
        # codes: [n, width] uint8
        made = kernel(self.kernel)
        last = first + len(codes)
        start, end = first // made.rows * made.rows, -(-last // made.rows) * made.rows
        if (start, end) != (first, last):
            around = made.codes(self.packed[start:end])
            around[first - start : last - start] = codes
            codes = around
        self.packed[start:end] = made.pack(codes)

    def store_scale(self, first: int, scale: Tensor) -> None:
        # scale: [n, width / group]
        self.scales[:, first : first + len(scale), 0] = scale.t()

    def store_offset(self, first: int, offset: Tensor) -> None:
        # offset: [n, width / group]
        self.scales[:, first : first + len(offset), 1] = offset.t()

    def grid(self) -> Grid:
        """What is stored, bit for bit."""
        codes = kernel(self.kernel).codes(self.packed)[: self.rows]
        scale, offset = self.scales[:, : self.rows].float().permute(2, 1, 0).contiguous()
        return Grid(codes, scale, MIDDLE - offset / scale)

    def linear(self, x: Tensor) -> Tensor:
        """x @ weight.T in x's type; computed in bfloat16."""
        # x: [..., width] -> [..., rows]
        flat = x.reshape(-1, x.shape[-1]).bfloat16()
        y = multiply(flat, self.packed, self.scales, self.rows, self.kernel)
        return y.to(x.dtype).reshape(*x.shape[:-1], self.rows)

    def lookup(self, ids: Tensor) -> Tensor:
        """Rows of the weight."""
        # ids: [...] int64 -> [..., width] bfloat16
        found = kernel(self.kernel).lookup(ids.reshape(-1), self.packed, self.scales)
        return found.view(*ids.shape, -1)
