"""The head gate: each head's output, times a sigmoid of what the layer read.

As a GEMM it would be 2048 × 8, too narrow to share among threads, and vLLM's packed one gets its shape wrong; written
inline, the compiler would trace it and lose more. So it is an op that the compiler doesn't look into.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["HeadGate"]

# From here on the product of the reduction is large, and a matmul has rows to share.
MANY_ROWS = 16


class HeadGate(nn.Module):
    """`weight` is the checkpoint's `g_proj.weight`, [heads, H]; it stays as it is where others are quantized."""

    def __init__(self, hidden_size: int, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, hidden_size), requires_grad=False)

    def forward(self, x: Tensor, attended: Tensor) -> Tensor:
        # x: [T, H], attended: [T, heads·D]; both and the result in the model's dtype
        return torch.ops.ouzel.head_gate(x, self.weight, attended)


def head_gate(x: Tensor, weight: Tensor, attended: Tensor) -> Tensor:
    # x: [T, H], weight: [heads, H], attended: [T, heads·D]; computed in float32
    x, weight = x.float(), weight.float()
    logits = (x[:, None] * weight).sum(-1) if len(x) < MANY_ROWS else x @ weight.T
    heads = attended.float().view(len(x), len(weight), -1)
    return (heads * logits.sigmoid()[..., None]).flatten(-2).to(attended.dtype)


def _like_attended(x: Tensor, weight: Tensor, attended: Tensor) -> Tensor:
    return torch.empty_like(attended)


# Defined by hand: `torch.library.custom_op` checks its arguments at each call, and this one runs once a layer and step.
torch.library.define("ouzel::head_gate", "(Tensor x, Tensor weight, Tensor attended) -> Tensor")
torch.library.impl("ouzel::head_gate", "default", head_gate)
torch.library.register_fake("ouzel::head_gate", _like_attended)
