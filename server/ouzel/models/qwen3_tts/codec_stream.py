"""The codec decoder for serving: any number of frames at a time, through a state that the caller holds.

The same network as `CodecDecoder`, its weights laid out once. Every operation is causal, so a stream needs only what
its convolutions and its attention look back to; however the frames are cut, the samples are those of one pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ouzel.errors import EngineError
from ouzel.models.qwen3_tts import codec_decoder as network
from ouzel.models.qwen3_tts.codec_causal import Carry, Causal
from ouzel.models.qwen3_tts.codec_stages import ConvNeXt, Dequantizer, Residual, Stage, Transformer

__all__ = ["DecoderState", "StreamingDecoder"]


@dataclass(frozen=True, slots=True)
class DecoderState:
    """What one stream carries from step to step; 5.2 MB at the published geometry. No step changes it.

    `pieces` follow the network: the last inputs of a convolution, float32 [batch, steps, channels], or the keys and
    values of a layer, float32 [2, batch, heads, frames, head_dim]. `position` counts frames.
    """

    pieces: tuple[Tensor, ...]
    position: int

    @property
    def nbytes(self) -> int:
        """Bytes that the stream holds."""
        return sum(piece.nbytes for piece in self.pieces)


class StreamingDecoder:
    """Codes to samples, step by step. Built from a `CodecDecoder`, which can be dropped afterwards."""

    def __init__(self, decoder: network.CodecDecoder) -> None:
        self.config = decoder.config
        self.samples_per_frame = decoder.samples_per_frame
        self._dequantizer = Dequantizer(decoder.quantizer)
        self._stages = list(_stages(decoder))

    def init_state(self, batch: int = 1) -> DecoderState:
        """A stream, or `batch` streams in step, that has heard nothing yet."""
        return DecoderState(tuple(piece for stage in self._stages for piece in stage.silence(batch)), position=0)

    @property
    def state_bytes(self) -> int:
        """Bytes that a stream comes to hold, once its attention looks back over a whole window."""
        config = self.config
        row = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
        return self.init_state().nbytes + torch.float32.itemsize * row * (config.sliding_window - 1)

    @torch.inference_mode()
    def step(self, codes: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Decode the next frames: int64 [B, G, T] -> samples in -1..1, float32 [B, T * samples_per_frame], next state.

        `state` stays as it was and can be continued from again. Raises EngineError where `codes` are no frames of
        this codec.
        """
        # codes: [B, G, T] -> [B, T * samples_per_frame]
        self._check(codes)
        carry = Carry(iter(state.pieces), state.position)
        x = self._dequantizer(codes)
        for stage in self._stages:
            x = stage(x, carry)
        return x.squeeze(-1).clamp_(-1, 1), DecoderState(tuple(carry.new), state.position + codes.shape[-1])

    def _check(self, codes: Tensor) -> None:
        books, size = self._dequantizer.books, self._dequantizer.size
        if codes.ndim != 3 or codes.shape[1] != books or not codes.shape[2]:
            raise EngineError(f"codes of shape {list(codes.shape)}, expected [B, {books}, T] with T of at least 1")
        low, high = (int(bound) for bound in codes.aminmax())
        if low < 0 or high >= size:
            raise EngineError(f"codes from {low} to {high}, expected 0 to {size - 1}")


def _stages(decoder: network.CodecDecoder) -> Iterator[Stage]:
    yield Causal(decoder.pre_conv, steps=1)
    yield Transformer(decoder.pre_transformer)
    steps, snake = 1, None  # steps of a frame; a Snake belongs to the convolution that it precedes
    for module in _parts(decoder.upsample, decoder.decoder):
        if isinstance(module, network.SnakeBeta):
            snake = module
        elif isinstance(module, network.CausalConv | network.CausalTransposedConv):
            yield Causal(module, steps, snake)
            steps, snake = steps * module.stride, None
        elif isinstance(module, network.ConvNeXtBlock):
            yield ConvNeXt(module, steps)
        elif isinstance(module, network.ResidualUnit):
            yield Residual(module, steps)


def _parts(*modules: nn.Module) -> Iterator[nn.Module]:
    for module in modules:
        if isinstance(module, nn.ModuleList | nn.Sequential | network.UpsampleBlock):
            yield from _parts(*module.children())
        else:
            yield module
