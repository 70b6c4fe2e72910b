"""The stages of the streaming codec decoder: each takes its pieces of a stream's state and leaves the next ones.

Built from the modules of `codec_decoder`; sound runs channels last, [B, T, C]. What is constant is worked out once:
codebook vectors, LayerScale and gamma (folded into the weights that they scale).
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ouzel.models.qwen3_tts import codec_decoder as network
from ouzel.models.qwen3_tts.codec_causal import Carry, Causal, Snake
from ouzel.models.qwen3_tts.packed_linear import PackedLinear

__all__ = ["ConvNeXt", "Dequantizer", "Residual", "Stage", "Transformer"]


class Stage(Protocol):
    """A part of the network with whatever it must remember of a stream."""

    def silence(self, batch: int) -> list[Tensor]:
        """Its pieces of a stream that has heard nothing."""
        ...

    def __call__(self, x: Tensor, carry: Carry) -> Tensor:
        """[B, T, C] -> [B, T', C']."""
        ...


class Residual:
    """Snake, dilated convolution, Snake, pointwise convolution, added to the input."""

    def __init__(self, unit: network.ResidualUnit, steps: int) -> None:
        self._wide = Causal(unit.conv1, steps, unit.act1)
        self._snake = Snake(unit.act2, steps)
        self._narrow = PackedLinear(unit.conv2.conv.weight[..., 0], unit.conv2.conv.bias)

    def silence(self, batch: int) -> list[Tensor]:
        return self._wide.silence(batch)

    def __call__(self, x: Tensor, carry: Carry) -> Tensor:
        # x: [B, T, C] -> [B, T, C]
        y = self._wide(x, carry)
        bent = torch.empty_like(y)
        self._snake(y, bent)
        return self._narrow.added(x, bent)


class ConvNeXt:
    """Depthwise convolution, norm, pointwise MLP, added to the input."""

    def __init__(self, block: network.ConvNeXtBlock, steps: int) -> None:
        self._depthwise = Causal(block.dwconv, steps)
        self._norm = block.norm
        self._grow = PackedLinear(block.pwconv1.weight, block.pwconv1.bias)
        gamma = block.gamma.detach()
        self._shrink = PackedLinear(gamma[:, None] * block.pwconv2.weight, gamma * block.pwconv2.bias)

    def silence(self, batch: int) -> list[Tensor]:
        return self._depthwise.silence(batch)

    def __call__(self, x: Tensor, carry: Carry) -> Tensor:
        # x: [B, T, C] -> [B, T, C]
        y = self._grow(self._norm(self._depthwise(x, carry)))
        return self._shrink.added(x, F.gelu(y))


class Transformer:
    """The transformer at frame rate; its pieces are keys and values, one a layer."""

    def __init__(self, module: network.CodecTransformer) -> None:
        self._config = module.config
        self._input = PackedLinear(module.input_proj.weight, module.input_proj.bias)
        layers = [layer for layer in module.layers if isinstance(layer, network.CodecLayer)]
        self._layers = [_Layer(layer, module.config.sliding_window) for layer in layers]
        self._norm = module.norm
        self._output = PackedLinear(module.output_proj.weight, module.output_proj.bias)

    def silence(self, batch: int) -> list[Tensor]:
        config = self._config
        return [torch.zeros(2, batch, config.num_key_value_heads, 0, config.head_dim) for _ in self._layers]

    def __call__(self, x: Tensor, carry: Carry) -> Tensor:
        # x: [B, T, latent] -> [B, T, latent]
        config, time = self._config, x.shape[1]
        rotary = network.rotary_table(carry.position, time, config.head_dim, config.rope_theta, x.device)
        keys = time + min(carry.position, config.sliding_window - 1)
        mask = None if time == 1 else network.window_mask(time, keys, config.sliding_window, x.device)
        x = self._input(x)
        for layer in self._layers:
            x = layer(x, rotary, mask, carry)
        return self._output(self._norm(x))


class _Layer:
    def __init__(self, layer: network.CodecLayer, window: int) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self._heads, self._kv_heads, self._head_dim = attention.heads, attention.kv_heads, attention.head_dim
        self._kept = window - 1
        self._norms = layer.input_layernorm, layer.post_attention_layernorm
        self._qkv = _linear(attention.q_proj, attention.k_proj, attention.v_proj)
        self._attended = _linear(attention.o_proj, scale=layer.self_attn_layer_scale.scale)
        self._gate_up = _linear(mlp.gate_proj, mlp.up_proj)
        self._down = _linear(mlp.down_proj, scale=layer.mlp_layer_scale.scale)

    def __call__(self, x: Tensor, rotary: tuple[Tensor, Tensor], mask: Tensor | None, carry: Carry) -> Tensor:
        # x: [B, T, H] -> [B, T, H]; rotary: cos and sin [T, head_dim]; mask: [T, keys]
        qkv = self._qkv(self._norms[0](x)).view(*x.shape[:2], -1, self._head_dim).transpose(1, 2)
        turned, v = torch.split(qkv, [self._heads + self._kv_heads, self._kv_heads], dim=1)
        q, k = torch.split(network.rotate(turned, rotary), [self._heads, self._kv_heads], dim=1)
        seen = torch.cat((next(carry.old), torch.stack((k, v))), dim=3)
        carry.new.append(seen[:, :, :, max(0, seen.shape[3] - self._kept) :].clone())
        k, v = seen
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=self._heads != self._kv_heads)
        x = self._attended.added(x, y.transpose(1, 2).flatten(2))
        gate, up = self._gate_up(self._norms[1](x)).chunk(2, dim=-1)
        return self._down.added(x, F.silu(gate).mul_(up))


def _linear(*layers: nn.Linear, scale: Tensor | None = None) -> PackedLinear:
    weight = torch.cat([layer.weight.detach() for layer in layers])
    return PackedLinear(weight if scale is None else scale.detach()[:, None] * weight)


class Dequantizer:
    """Codes to the sum of their vectors: one lookup for all codebooks, one projection."""

    def __init__(self, module: network.SplitQuantizer) -> None:
        first, rest = module.rvq_first, module.rvq_rest
        self._vectors = torch.stack([book.vectors().detach() for book in first.codebooks() + rest.codebooks()])
        self.books, self.size = self._vectors.shape[:2]
        self._book = torch.arange(self.books)[:, None]
        self._project = PackedLinear(torch.cat((first.output_proj.weight, rest.output_proj.weight), dim=1)[..., 0])

    def __call__(self, codes: Tensor) -> Tensor:
        # codes: [B, G, T] -> [B, T, codebook_dim]
        vectors = self._vectors[self._book, codes]
        return self._project(torch.cat((vectors[:, 0], vectors[:, 1:].sum(dim=1)), dim=-1))
