"""The transformer layer that talker and code predictor share, for training and for serving."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ouzel.models.qwen3_tts.config import BackboneConfig

__all__ = ["Attend", "Attention", "Backbone", "RMSNorm", "Rope", "SwiGLU", "TransformerLayer", "rotate"]

# attend(queries [N, heads, D], keys [N, kv_heads, D], values [N, kv_heads, D]) -> [N, heads, D]: how one layer of a
# step of serving stores its keys and values, and which of them each row sees.
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


class RMSNorm(nn.Module):
    """Root-mean-square norm whose variance is taken in float32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        # x: [..., size]
        if x.dtype == torch.float32:
            return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)
        wide = functional.rms_norm(x.float(), self.weight.shape, None, self.eps)
        return self.weight * wide.to(x.dtype)


class Rope:
    """Rotary tables in NeoX order, grown on demand; `sin` carries the sign of the rotated half."""

    def __init__(self, head_dim: int, theta: float) -> None:
        self._head_dim = head_dim
        self._theta = theta
        self._tables = (torch.empty(0), torch.empty(0))

    def tables(self, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin, each [at least `length`, 1, head_dim], on the device and in the dtype of `like`."""
        cos, sin = self._tables
        if len(cos) < length or cos.device != like.device or cos.dtype != like.dtype:
            cos, sin = self._tables = self._compute(length, like)
        return cos, sin

    # Tables made while serving must also do for training, which may follow in the same process.
    @torch.inference_mode(False)
    def _compute(self, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
        positions = torch.arange(1 << max(length - 1, 63).bit_length(), dtype=torch.float32, device=like.device)
        steps = torch.arange(0, self._head_dim, 2, dtype=torch.float32, device=like.device)
        angles = torch.outer(positions, 1.0 / self._theta ** (steps / self._head_dim))[:, None]
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((cos, cos), -1).to(like.dtype), torch.cat((-sin, sin), -1).to(like.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (i, i + D/2) of the last dimension by the angles of `Rope.tables`."""
    # x: [..., D]; cos, sin: broadcastable to x
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)


class SwiGLU(nn.Module):
    """Gated feed-forward block."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        # x: [..., H]
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Attention(nn.Module):
    """Grouped-query attention with a norm on each head's queries and keys before RoPE."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        heads, kv_heads, size = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.head_dim = size
        self.q_proj = nn.Linear(config.hidden_size, heads * size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_heads * size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_heads * size, bias=False)
        self.o_proj = nn.Linear(heads * size, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(size, config.rms_norm_eps)
        self.k_norm = RMSNorm(size, config.rms_norm_eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None) -> Tensor:
        # x: [B, T, H]; cos, sin: [T, 1, D]; mask: broadcastable to [B, heads, T, T], None for causal
        q, k, v = (part.transpose(1, 2) for part in self.project(x, cos, sin))
        seen = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None, enable_gqa=True)
        out: Tensor = self.o_proj(seen.transpose(1, 2).flatten(2))
        return out

    def step(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """Rows of serving; `attend` keeps their keys and values."""
        # x: [N, H]; cos, sin: [N, 1, D] or [1, 1, D]
        out: Tensor = self.o_proj(attend(*self.project(x, cos, sin)).flatten(1))
        return out

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normed and turned queries [..., heads, D] and keys [..., kv_heads, D], and values."""
        # x: [..., H]
        q = self.q_norm(self.q_proj(x).unflatten(-1, (-1, self.head_dim)))
        k = self.k_norm(self.k_proj(x).unflatten(-1, (-1, self.head_dim)))
        v = self.v_proj(x).unflatten(-1, (-1, self.head_dim))
        return rotate(q, cos, sin), rotate(k, cos, sin), v


class TransformerLayer(nn.Module):
    """Pre-norm attention and feed-forward, each added to its input."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = SwiGLU(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None = None) -> Tensor:
        """Whole sequences, differentiable; `mask` as in scaled_dot_product_attention, None for causal."""
        # x: [B, T, H]; cos, sin: [T, 1, D]
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out

    def step(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """Rows of serving, whose past is behind `attend`."""
        # x: [N, H]; cos, sin: [N, 1, D] or [1, 1, D]
        x = x + self.self_attn.step(self.input_layernorm(x), cos, sin, attend)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Backbone(nn.Module):
    """A stack of layers with its final norm; talker and code predictor add their embeddings."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TransformerLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rope = Rope(config.head_dim, config.rope_theta)

    def forward(self, rows: Tensor, mask: Tensor | None = None) -> Tensor:
        """Whole sequences from position 0, differentiable; hidden states after the final norm."""
        # rows: [B, T, H] -> [B, T, H]
        length = rows.shape[1]
        cos, sin = self.rope.tables(length, rows)
        for layer in self.layers:
            rows = layer(rows, cos[:length], sin[:length], mask)
        hidden: Tensor = self.norm(rows)
        return hidden

    def step(
        self, rows: Tensor, cos: Tensor, sin: Tensor, attend: Callable[[int, Tensor, Tensor, Tensor], Tensor]
    ) -> Tensor:
        """Rows of serving through the layers, before the final norm; `attend` also takes the layer's index."""
        # rows: [N, H] -> [N, H]; cos, sin: [N, 1, D] or [1, 1, D]
        for index, layer in enumerate(cast("Iterable[TransformerLayer]", self.layers)):
            rows = layer.step(rows, cos, sin, partial(attend, index))
        return rows
