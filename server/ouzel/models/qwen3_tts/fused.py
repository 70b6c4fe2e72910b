"""Layers as they are served: one linear for queries, keys and values, one for gate and up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ouzel.models.qwen3_tts.layers import Attention, Backbone, SwiGLU, TransformerLayer, rotate

__all__ = ["FusedAttention", "FusedSwiGLU", "fuse"]


def fuse(backbone: Backbone) -> None:
    """Swap every layer's attention and feed-forward for their fused forms; the result is for inference alone."""
    for layer in cast("Iterable[TransformerLayer]", backbone.layers):
        layer.self_attn = FusedAttention(layer.self_attn)
        layer.mlp = FusedSwiGLU(layer.mlp)


class FusedAttention(Attention):
    """Attention whose projection, norms and rotation each run once over queries and keys together."""

    def __init__(self, source: Attention) -> None:
        nn.Module.__init__(self)
        self.head_dim = source.head_dim
        self.eps = source.q_norm.eps
        self.qkv_proj = _stack(source.q_proj, source.k_proj, source.v_proj)
        self.o_proj = source.o_proj
        heads, kv_heads = (part.out_features // self.head_dim for part in (source.q_proj, source.k_proj))
        self.split = (heads, kv_heads)
        weights = (source.q_norm.weight.expand(heads, -1), source.k_norm.weight.expand(kv_heads, -1))
        self.qk_norm = nn.Parameter(torch.cat(weights).detach(), requires_grad=False)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # x: [..., H]
        heads, kv_heads = self.split
        qkv = self.qkv_proj(x).unflatten(-1, (-1, self.head_dim))
        qk, v = torch.split_with_sizes(qkv, (heads + kv_heads, kv_heads), -2)
        normed = functional.rms_norm(qk.float(), (self.head_dim,), None, self.eps).to(x.dtype)
        q, k = torch.split_with_sizes(rotate(normed * self.qk_norm, cos, sin), (heads, kv_heads), -2)
        return q, k, v


class FusedSwiGLU(SwiGLU):
    """Feed-forward whose gate and up projections are one linear."""

    def __init__(self, source: SwiGLU) -> None:
        nn.Module.__init__(self)
        self.gate_up_proj = _stack(source.gate_proj, source.up_proj)
        self.down_proj = source.down_proj

    def forward(self, x: Tensor) -> Tensor:
        # x: [..., H]
        gate, up = self.gate_up_proj(x).chunk(2, -1)
        out: Tensor = self.down_proj(functional.silu(gate) * up)
        return out


def _stack(*parts: nn.Linear) -> nn.Linear:
    stacked = nn.Linear(1, 1, bias=False, device="meta")
    stacked.weight = nn.Parameter(torch.cat([part.weight for part in parts]).detach(), requires_grad=False)
    stacked.out_features, stacked.in_features = stacked.weight.shape
    return stacked
