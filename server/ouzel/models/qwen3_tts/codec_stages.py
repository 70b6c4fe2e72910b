"""The stages of the streaming codec decoder: each takes its piece of a stream's state and leaves the next one.

Built from the modules of `codec_decoder`. Sound runs channels last, [B, T, C]. Norm scales aside, what is constant is
worked out here once: codebook vectors, Snake's exponentials, LayerScale and gamma (folded into the weights they scale).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ouzel.models.qwen3_tts import codec_decoder as network
from ouzel.models.qwen3_tts.packed_linear import PackedLinear

_BLOCK = 256  # steps that are unrolled at once, so that they stay in the cache
_ONEDNN_FROM = 20_480  # numbers of an image from which torch gives its convolution to oneDNN; below it is slow
_Convolution = network.CausalConv | network.CausalTransposedConv

__all__ = ["Carry", "Causal", "ConvNeXt", "Dequantizer", "Residual", "Stage", "Transformer"]


@dataclass(slots=True)
class Carry:
    """Goes through the stages with a stream: its old pieces in their order, and the new ones that they leave."""

    old: Iterator[Tensor]
    position: int
    new: list[Tensor] = field(default_factory=list)


class Stage(Protocol):
    """A part of the network with whatever it must remember of a stream."""

    def silence(self, batch: int) -> list[Tensor]:
        """Its pieces of a stream that has heard nothing."""
        ...

    def __call__(self, x: Tensor, carry: Carry) -> Tensor:
        """[B, T, C] -> [B, T', C']."""
        ...


class Snake:
    """x + sin²(αx) / β."""

    def __init__(self, module: network.SnakeBeta, steps: int) -> None:
        # Few channels make short inner loops: as many steps of a frame as fill a cache line or more go side by side.
        self._together = math.gcd(steps, max(1, 256 // len(module.alpha)))
        self._alpha = module.alpha.detach().exp().repeat(self._together)
        self._inverse_beta = (1.0 / (module.beta.detach().exp() + 1e-9)).repeat(self._together)

    def __call__(self, x: Tensor, out: Tensor) -> None:
        # x, out: [B, T, C]; out may not be x
        shape = (len(x), x.shape[1] // self._together, -1)
        wide, out = x.view(shape), out.view(shape)
        torch.mul(wide, self._alpha, out=out).sin_().square_()
        torch.addcmul(wide, out, self._inverse_beta, out=out)


class Causal:
    """A causal convolution, Snake before it where there is one; its piece is the inputs that it looks back to."""

    def __init__(self, module: _Convolution, steps: int, snake: network.SnakeBeta | None = None) -> None:
        """`steps` is the length of a frame here, by which the form of the convolution is chosen."""
        weight, bias, self._rate = (
            _polyphase(module.conv) if isinstance(module, network.CausalTransposedConv) else _plain(module.conv)
        )
        dilation = module.conv.dilation[0]
        self._snake = None if snake is None else Snake(snake, steps)
        self._channels = module.conv.in_channels
        self._past = (weight.shape[-1] - 1) * dilation
        form: type[_Depthwise | _Direct | _Unrolled]
        if module.conv.groups > 1:
            form = _Depthwise
        else:
            form = _Direct if steps > len(weight) and steps * self._channels >= _ONEDNN_FROM else _Unrolled
        self._conv = form(weight, bias, dilation)

    def silence(self, batch: int) -> list[Tensor]:
        return [torch.zeros(batch, self._past, self._channels)] if self._past else []

    def __call__(self, x: Tensor, carry: Carry) -> Tensor:
        # x: [B, T, C] -> [B, T * rate, C']
        y = self._conv(self._window(x, carry))
        return y.reshape(len(y), y.shape[1] * self._rate, -1)

    def _window(self, x: Tensor, carry: Carry) -> Tensor:
        # -> [B, past + T, C]: Snake writes beside the history, so that nothing is moved twice
        batch, time, channels = x.shape
        window = x.new_empty(batch, self._past + time, channels)
        now = window[:, self._past :]
        if self._snake is None:
            now.copy_(x)
        else:
            self._snake(x, now)
        if self._past:
            window[:, : self._past] = next(carry.old)
            carry.new.append(window[:, time:].clone())
        return window


class _Unrolled:
    """The taps side by side in one linear layer, whose weights are laid out once: for many weights, few steps."""

    def __init__(self, weight: Tensor, bias: Tensor, dilation: int) -> None:
        # weight: [C', C, K]; bias: [C']
        self._taps, self._dilation = weight.shape[-1], dilation
        self._linear = PackedLinear(weight.transpose(1, 2).flatten(1), bias)

    def __call__(self, window: Tensor) -> Tensor:
        # window: [B, T + (K - 1) * dilation, C] -> [B, T, C']
        blocks = torch.split(_taps(window, self._taps, self._dilation), _BLOCK, dim=1)
        done = [self._linear(block.flatten(2)) for block in blocks]
        return done[0] if len(done) == 1 else torch.cat(done, dim=1)


class _Direct:
    """The convolution of torch: for few weights, since oneDNN lays them out anew in every call, and many steps."""

    def __init__(self, weight: Tensor, bias: Tensor, dilation: int) -> None:
        # weight: [C', C, K]; bias: [C']
        self._weight = weight[:, :, None].contiguous(memory_format=torch.channels_last)
        self._bias, self._dilation = bias, dilation

    def __call__(self, window: Tensor) -> Tensor:
        # window: [B, T + (K - 1) * dilation, C] -> [B, T, C']
        plane = window.transpose(1, 2)[:, :, None]
        return (
            F.conv2d(plane, self._weight, self._bias, dilation=(1, self._dilation))[:, :, 0]
            .transpose(1, 2)
            .contiguous()
        )


class _Depthwise:
    """Each channel by itself: a product and a sum over the taps."""

    def __init__(self, weight: Tensor, bias: Tensor, dilation: int) -> None:
        # weight: [C, 1, K]; bias: [C]
        self._weight, self._bias, self._dilation = weight[:, 0].T.contiguous(), bias, dilation

    def __call__(self, window: Tensor) -> Tensor:
        # window: [B, T + (K - 1) * dilation, C] -> [B, T, C]
        taps = _taps(window, len(self._weight), self._dilation)
        return (taps * self._weight).sum(dim=2).add_(self._bias)


def _taps(window: Tensor, taps: int, dilation: int) -> Tensor:
    # window: [B, T + (taps - 1) * dilation, C] -> what each step sees, a view [B, T, taps, C]
    batch, length, channels = window.shape
    row, step, unit = window.stride()
    shape = (batch, length - (taps - 1) * dilation, taps, channels)
    return window.as_strided(shape, (row, step, dilation * step, unit))


def _plain(conv: nn.Conv1d | nn.ConvTranspose1d) -> tuple[Tensor, Tensor, int]:
    assert conv.bias is not None
    return conv.weight.detach(), conv.bias.detach(), 1


def _polyphase(conv: nn.Conv1d | nn.ConvTranspose1d) -> tuple[Tensor, Tensor, int]:
    # An upsampling of rate r with a kernel of m r is a convolution with a kernel of m whose output holds r steps of all
    # channels: what overlaps is added within it, the bias once, and only m - 1 inputs are left to carry.
    rate = conv.stride[0]
    inputs, outputs, kernel = conv.weight.shape
    taps = conv.weight.detach().view(inputs, outputs, kernel // rate, rate).flip(2)
    assert conv.bias is not None
    return taps.permute(3, 1, 0, 2).reshape(rate * outputs, inputs, -1), conv.bias.detach().repeat(rate), rate


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
        carry.new.append(seen[:, :, :, -self._kept :].clone())
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
