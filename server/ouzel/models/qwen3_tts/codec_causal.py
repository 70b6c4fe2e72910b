"""Causal convolutions over sound that arrives in pieces, channels last, [B, T, C]; weights laid out once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ouzel.models.qwen3_tts import codec_decoder as network
from ouzel.models.qwen3_tts.packed_linear import PackedLinear

__all__ = ["Carry", "Causal", "Snake"]

_BLOCK = 256  # steps that are unrolled at once, so that they stay in the cache
_ONEDNN_FROM = 20_480  # numbers of an image from which torch gives its convolution to oneDNN; below it is slow


@dataclass(slots=True)
class Carry:
    """Goes through the stages with a stream: its old pieces in their order, and the new ones that they leave."""

    old: Iterator[Tensor]
    position: int
    new: list[Tensor] = field(default_factory=list)


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

    def __init__(
        self,
        module: network.CausalConv | network.CausalTransposedConv,
        steps: int,
        snake: network.SnakeBeta | None = None,
    ) -> None:
        """`steps` is the length of a frame here, by which the form of the convolution is chosen."""
        conv = module.conv
        assert conv.bias is not None
        weight, bias, self._rate = conv.weight.detach(), conv.bias.detach(), 1
        if isinstance(conv, nn.ConvTranspose1d):
            self._rate = conv.stride[0]
            weight, bias = _polyphase(weight, self._rate), bias.repeat(self._rate)
        self._snake = None if snake is None else Snake(snake, steps)
        self._channels = conv.in_channels
        self._past = (weight.shape[-1] - 1) * conv.dilation[0]
        form = _Depthwise if conv.groups > 1 else _form(steps, *weight.shape[:2])
        self._conv = form(weight, bias, conv.dilation[0])

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
        y = F.conv2d(plane, self._weight, self._bias, dilation=(1, self._dilation))
        return y[:, :, 0].transpose(1, 2).contiguous()


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


def _polyphase(weight: Tensor, rate: int) -> Tensor:
    # weight: [C, C', M * rate] -> [rate * C', C, M]
    # An upsampling by `rate` is a convolution with a kernel of M whose every output holds `rate` steps of all channels:
    # what overlaps is added within it, the bias once, and the M - 1 inputs before are all there is to carry.
    inputs, outputs, kernel = weight.shape
    taps = weight.view(inputs, outputs, kernel // rate, rate).flip(2)
    return taps.permute(3, 1, 0, 2).reshape(rate * outputs, inputs, -1)


def _form(steps: int, outputs: int, inputs: int) -> type[_Direct | _Unrolled]:
    # Laying out costs outputs * inputs * K a call, unrolling steps * inputs * K.
    return _Direct if steps > outputs and steps * inputs >= _ONEDNN_FROM else _Unrolled
