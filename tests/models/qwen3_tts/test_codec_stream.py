from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import tiny_codec
from ouzel.errors import EngineError
from ouzel.models.qwen3_tts import packed_linear
from ouzel.models.qwen3_tts.codec_config import CodecDecoderConfig
from ouzel.models.qwen3_tts.codec_decoder import CodecDecoder
from ouzel.models.qwen3_tts.codec_stream import StreamingDecoder
from tiny_ours import config, goldens, tiny_decoder

CODES = torch.from_numpy(tiny_codec.tiny_codes())
BAR = 1e-4
STREAMING = StreamingDecoder(tiny_decoder())


def decode(codes: Tensor, chunks: Iterable[int], decoder: StreamingDecoder = STREAMING) -> Tensor:
    state, samples, first = decoder.init_state(), [], 0
    for chunk in chunks:
        made, state = decoder.step(codes[..., first : first + chunk], state)
        samples.append(made)
        first += chunk
    assert first == codes.shape[-1]
    return torch.cat(samples, dim=-1)


def even(chunk: int) -> list[int]:
    whole, rest = divmod(tiny_codec.FRAMES, chunk)
    return [chunk] * whole + [rest] * (rest > 0)


@pytest.mark.parametrize("chunk", [1, 2, 4, 8, 16, 25, tiny_codec.FRAMES])
def test_streamed_waveform_is_the_official_one(chunk: int) -> None:
    samples = decode(CODES, even(chunk))[0]
    torch.testing.assert_close(samples[:: tiny_codec.KEPT_EVERY], goldens()["decoder.samples"], rtol=0, atol=BAR)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(0, 20))
def test_any_cut_gives_the_samples_of_one_pass(chunks: list[int], skipped: int) -> None:
    codes = CODES.repeat(1, 1, 3)[..., skipped : skipped + sum(chunks)]
    with torch.inference_mode():
        whole = tiny_decoder()(codes)
    torch.testing.assert_close(decode(codes, chunks), whole, rtol=0, atol=BAR / 10)


def test_samples_are_the_same_without_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_linear, "_available", lambda: False)
    plain = StreamingDecoder(tiny_decoder())
    torch.testing.assert_close(decode(CODES, even(25), plain), decode(CODES, even(25)), rtol=0, atol=BAR / 10)


def test_interleaved_streams_do_not_disturb_each_other() -> None:
    one, other = CODES, CODES.flip(-1)
    states, samples = [STREAMING.init_state(), STREAMING.init_state()], [[], []]
    for first in range(0, tiny_codec.FRAMES, 20):
        for i, codes in enumerate((one, other)):
            made, states[i] = STREAMING.step(codes[..., first : first + 20], states[i])
            samples[i].append(made)
    assert torch.equal(torch.cat(samples[0], -1), decode(one, even(20)))
    assert torch.equal(torch.cat(samples[1], -1), decode(other, even(20)))


def test_streams_in_step_are_those_of_single_streams() -> None:
    pair = torch.cat((CODES, CODES.flip(-1)))[..., :100]
    state = STREAMING.init_state(batch=2)
    start, state = STREAMING.step(pair[..., :90], state)
    rest, state = STREAMING.step(pair[..., 90:], state)
    together = torch.cat((start, rest), -1)
    for row in range(2):
        torch.testing.assert_close(together[row], decode(pair[row : row + 1], [90, 10])[0], rtol=0, atol=BAR / 10)


def test_a_state_stays_as_it_was_and_can_be_continued_twice() -> None:
    _, primed = STREAMING.step(CODES[..., :80], STREAMING.init_state())
    before = [piece.clone() for piece in primed.pieces]
    first, _ = STREAMING.step(CODES[..., 80:83], primed)
    again, _ = STREAMING.step(CODES[..., 80:83], primed)
    assert torch.equal(first, again)
    assert all(torch.equal(piece, kept) for piece, kept in zip(primed.pieces, before, strict=True))


def test_the_decoder_holds_nothing_of_a_stream() -> None:
    fresh = decode(CODES[..., :30], [30], StreamingDecoder(tiny_decoder()))
    decode(CODES, even(25))
    assert torch.equal(decode(CODES[..., :30], [30]), fresh)


def test_a_state_grows_to_its_window_and_no_further() -> None:
    sizes, state = [], STREAMING.init_state()
    for first in range(0, 120, 30):
        _, state = STREAMING.step(CODES[..., first : first + 30], state)
        sizes.append(state.nbytes)
    assert sizes[0] < sizes[1] < sizes[2] == sizes[3] == STREAMING.state_bytes
    assert state.position == 120


def test_a_state_of_the_published_geometry_is_five_megabytes() -> None:
    with torch.device("meta"):
        decoder = CodecDecoder(config(CodecDecoderConfig, tiny_codec.PUBLISHED_DECODER))
    assert sum(weight.numel() for weight in decoder.parameters()) == 114_323_137
    assert StreamingDecoder(decoder).state_bytes == 5_193_984


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (CODES[:, :3], r"shape \[1, 3, 180\], expected \[B, 4, T\]"),
        (CODES[..., :0], r"shape \[1, 4, 0\]"),
        (CODES[0], r"shape \[4, 180\]"),
        (CODES + 1, "codes from 1 to 32, expected 0 to 31"),
        (CODES - 1, "codes from -1 to 30, expected 0 to 31"),
    ],
)
def test_codes_that_are_no_frames_are_refused(codes: Tensor, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        STREAMING.step(codes, STREAMING.init_state())
