"""vLLM's fused norms for CPUs in place of what the compiler makes of their definition: `llm.cpu_ir_ops`.

Alone each is several times as fast. A call that the compiler can't look into also ends its fusion on both sides, so
that a step may still take longer: off by default, `benchmarks/llm/ir_ops_bench.py` measures it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from vllm import ir

__all__ = ["enable"]

PROVIDER = "ouzel_cpu"


def enable() -> dict[str, list[str]]:
    """Register the norms with vLLM, once a process; returns what its `ir_op_priority` has to be for them to be used."""
    ops = (ir.ops.rms_norm, ir.ops.fused_add_rms_norm)
    if PROVIDER not in ir.ops.rms_norm.impls:
        ir.ops.rms_norm.register_impl(PROVIDER, supports_args=_plain)(_rms_norm)
        ir.ops.fused_add_rms_norm.register_impl(PROVIDER, supports_args=_plain_add, inplace=True)(_fused_add_rms_norm)
    return {op.name: [PROVIDER, "native"] for op in ops}


# Parameters are named as vLLM's definitions name them: it compares signatures.
def _rms_norm(x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None) -> Tensor:
    # x: [T, H]
    output = torch.empty_like(x)
    torch.ops._C.rms_norm(output, x, weight, epsilon)
    return output


def _fused_add_rms_norm(
    x: Tensor, x_residual: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> tuple[Tensor, Tensor]:
    # x, x_residual: [T, H], both overwritten
    torch.ops._C.fused_add_rms_norm(x, x_residual, weight, epsilon)
    return x, x_residual


def _plain(x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None) -> bool:
    return variance_size is None and (weight is None or weight.dtype == x.dtype)


def _plain_add(
    x: Tensor, x_residual: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> bool:
    return _plain(x, weight, epsilon, variance_size)
