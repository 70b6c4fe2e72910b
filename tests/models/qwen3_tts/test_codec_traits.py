"""Each trait of the codec decoder, switched off, breaks the bar of fidelity a hundredfold."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor

import tiny_codec
from ouzel.models.qwen3_tts import codec_decoder
from ouzel.models.qwen3_tts.codec_decoder import CodecDecoder, ConvNeXtBlock, LayerScale, SnakeBeta
from ouzel.models.qwen3_tts.codec_stream import DecoderState, StreamingDecoder
from tiny_ours import goldens, tiny_decoder

CODES = torch.from_numpy(tiny_codec.tiny_codes())
BROKEN = 100 * 1e-4
STREAMING = StreamingDecoder(tiny_decoder())
PIECES = len(STREAMING.init_state().pieces)


def strayed(samples: Tensor) -> float:
    """The greatest distance from the official waveform."""
    kept = samples[0, :: tiny_codec.KEPT_EVERY]
    return float((kept - goldens()["decoder.samples"][: len(kept)]).abs().max())


@cache
def half_way() -> tuple[Tensor, DecoderState]:
    return STREAMING.step(CODES[..., :90], STREAMING.init_state())


def continued(state: DecoderState) -> Tensor:
    """Ninety frames as they should be, and ten more from this state."""
    return torch.cat((half_way()[0], STREAMING.step(CODES[..., 90:100], state)[0]), dim=-1)


def no_rope(decoder: CodecDecoder, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(codec_decoder, "rotate", lambda x, rotary: x)


def no_layer_scale(decoder: CodecDecoder, patch: pytest.MonkeyPatch) -> None:
    for module in decoder.modules():
        if isinstance(module, LayerScale):
            module.scale.fill_(1.0)


def no_alpha(decoder: CodecDecoder, patch: pytest.MonkeyPatch) -> None:
    for module in decoder.modules():
        if isinstance(module, SnakeBeta):
            module.alpha.fill_(0.0)


def no_beta(decoder: CodecDecoder, patch: pytest.MonkeyPatch) -> None:
    for module in decoder.modules():
        if isinstance(module, SnakeBeta):
            module.beta.fill_(0.0)


def no_gamma(decoder: CodecDecoder, patch: pytest.MonkeyPatch) -> None:
    for module in decoder.modules():
        if isinstance(module, ConvNeXtBlock):
            module.gamma.fill_(1.0)


def no_usage(decoder: CodecDecoder, patch: pytest.MonkeyPatch) -> None:
    for book in decoder.quantizer.rvq_rest.codebooks():
        book.cluster_usage.fill_(1.0)


@pytest.mark.parametrize("switch_off", [no_rope, no_layer_scale, no_alpha, no_beta, no_gamma, no_usage])
def test_each_trait_matters(
    switch_off: Callable[[CodecDecoder, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = tiny_decoder()
    switch_off(decoder, monkeypatch)
    assert strayed(decoder(CODES)) > BROKEN


@pytest.mark.parametrize("window", [71, 73, 8000])
def test_the_window_matters_to_a_frame(window: int) -> None:
    assert strayed(tiny_decoder(sliding_window=window)(CODES)) > BROKEN


def test_the_state_itself_is_right() -> None:
    assert strayed(continued(half_way()[1])) < BROKEN / 100


@pytest.mark.parametrize("piece", range(PIECES))
def test_each_piece_of_state_matters(piece: int) -> None:
    state = half_way()[1]
    pieces = list(state.pieces)
    pieces[piece] = torch.zeros_like(pieces[piece])
    assert strayed(continued(DecoderState(tuple(pieces), state.position))) > BROKEN


def test_the_position_matters() -> None:
    state = half_way()[1]
    assert strayed(continued(DecoderState(state.pieces, state.position + 7))) > BROKEN
