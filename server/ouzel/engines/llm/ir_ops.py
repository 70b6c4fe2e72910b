"""vLLM's fused norms for the CPU as implementations of its IR operations (`llm.cpu_ir_ops`).

Faster alone and slower end to end where it was measured: inductor can't fuse anything with an opaque call. So this is
off by default, and kept to be measured again. `gelu_and_mul` is left out on purpose: it is slower alone, too.
"""

from __future__ import annotations

import torch
from torch import Tensor
from vllm import ir

from ouzel.engines.llm.arguments import IR_PROVIDER

__all__ = ["register_ir_ops"]


def register_ir_ops() -> None:
    """Make them known to vLLM; they are used where `ir_op_priority` names them."""
    if IR_PROVIDER in ir.ops.rms_norm.impls:
        return
    ir.ops.rms_norm.register_impl(IR_PROVIDER, supports_args=_norm_is_plain)(_rms_norm)
    ir.ops.fused_add_rms_norm.register_impl(IR_PROVIDER, supports_args=_added_norm_is_plain, inplace=True)(
        _fused_add_rms_norm
    )


def _norm_is_plain(x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None) -> bool:
    return variance_size is None and weight is not None and weight.dtype == x.dtype


def _added_norm_is_plain(
    x: Tensor, x_residual: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> bool:
    return _norm_is_plain(x, weight, epsilon, variance_size)


def _rms_norm(x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None) -> Tensor:
    # x: [..., H]; weight: [H] -> [..., H]
    out = torch.empty(x.shape, dtype=x.dtype)
    torch.ops._C.rms_norm(out, x.contiguous(), weight, epsilon)
    return out


def _fused_add_rms_norm(
    x: Tensor, x_residual: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> tuple[Tensor, Tensor]:
    # x, x_residual: [..., H], both overwritten; weight: [H] -> normed [..., H], sum [..., H]
    torch.ops._C.fused_add_rms_norm(x, x_residual, weight, epsilon)
    return x, x_residual
