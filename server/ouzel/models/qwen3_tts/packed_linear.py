"""A linear layer whose weights are laid out once, for serving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["PackedLinear"]

# oneDNN wants weights in blocks. These operators, which torch.compile uses too, take weights laid out beforehand. With
# few rows they read them about twice as fast as F.linear on AMD's CPUs, whose BLAS there is held to AVX2.
_onednn: Any = torch.ops.mkldnn
_available: Callable[[], bool] = torch.backends.mkldnn.is_available
# The layout is chosen for a number of rows. That for 32 serves any number; that for 1 is slower on all others.
_ROWS = 32
# A call of these costs 20 µs before it begins: below so many products F.linear is done by then.
_WORTH_WEIGHTS, _WORTH_PRODUCTS = 1 << 17, 1 << 21


class PackedLinear:
    """x @ weight.T + bias over the last dimension; float32, without gradients.

    Weight and bias are read once: what happens to them later is not seen.
    """

    __slots__ = ("_bias", "_outputs", "_packed", "_plain")

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        # weight: [outputs, inputs]; bias: [outputs]
        weight = weight.detach().contiguous()
        packs = weight.device.type == "cpu" and _available()
        self._packed = _onednn._reorder_linear_weight(weight, _ROWS) if packs else None
        self._plain = None if packs and weight.numel() >= _WORTH_WEIGHTS else weight
        self._bias = None if bias is None else bias.detach()
        self._outputs = len(weight)

    def __call__(self, x: Tensor) -> Tensor:
        # x: [..., inputs] -> [..., outputs]
        if (plain := self._plain_for(x)) is not None:
            return F.linear(x, plain, self._bias)
        y: Tensor = _onednn._linear_pointwise(x, self._packed, self._bias, "none", [], "")
        return y

    def added(self, total: Tensor, x: Tensor) -> Tensor:
        """`total` plus the layer's answer to `x`."""
        # total: [..., outputs]; x: [..., inputs] -> [..., outputs]
        if (plain := self._plain_for(x)) is not None:
            return F.linear(x, plain, self._bias).add_(total)
        y: Tensor = _onednn._linear_pointwise.binary(x, total, self._packed, self._bias, "add")
        return y

    def _plain_for(self, x: Tensor) -> Tensor | None:
        few = x.numel() * self._outputs < _WORTH_PRODUCTS
        return self._plain if few or self._packed is None else None
