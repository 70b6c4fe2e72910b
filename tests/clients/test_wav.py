from __future__ import annotations

import wave
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.audio.wav import wav_header
from ouzel_client.errors import OutputError
from ouzel_client.wav import WavFile, WavStream, WholeSamples

SAMPLES = bytes(range(200)) * 2
LIST = b"LIST\x0a\x00\x00\x00INFOabcdef"


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@given(st.lists(st.binary(max_size=9)))
def test_samples_are_never_split(pieces: list[bytes]) -> None:
    whole = WholeSamples()
    parts = [whole.feed(piece) for piece in pieces]
    data = b"".join(pieces)
    assert b"".join(parts) == data[: len(data) // 2 * 2]
    assert all(len(part) % 2 == 0 for part in parts)


@pytest.mark.parametrize("size", [1, 7, 44, 1000])
@pytest.mark.parametrize("declared", [len(SAMPLES), None])
def test_a_stream_gives_its_samples_however_it_is_cut(size: int, declared: int | None) -> None:
    stream = WavStream()
    data = wav_header(24_000, declared) + SAMPLES
    assert b"".join(map(stream.feed, cut(data, size))) == SAMPLES
    assert stream.sample_rate == 24_000


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_what_follows_the_data_is_no_sound(size: int) -> None:
    stream = WavStream()
    data = wav_header(24_000, len(SAMPLES)) + SAMPLES + LIST
    assert b"".join(map(stream.feed, cut(data, size))) == SAMPLES


def test_chunks_before_the_data_are_passed_over() -> None:
    header = wav_header(16_000, len(SAMPLES))
    stream = WavStream()
    assert stream.feed(header[:36] + LIST + header[36:] + SAMPLES) == SAMPLES
    assert stream.sample_rate == 16_000


FLOATS = wav_header(24_000).replace(b"\x01\x00\x01\x00", b"\x03\x00\x01\x00")


@pytest.mark.parametrize(("data", "words"), [(b"ID3\x04 and no WAV", "something else than a WAV"), (FLOATS, "kind 3")])
def test_what_is_no_pcm_is_said(data: bytes, words: str) -> None:
    with pytest.raises(OutputError, match=words):
        WavStream().feed(data + SAMPLES)


def test_a_file_is_whole_whenever_it_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with WavFile(str(path), 24_000) as file:
        for piece in cut(SAMPLES, 7):
            file.write(piece)
    with wave.open(str(path)) as reader:
        assert (reader.getframerate(), reader.getnchannels(), reader.getsampwidth()) == (24_000, 1, 2)
        assert reader.readframes(10_000) == SAMPLES


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file"):
        WavFile(str(tmp_path / "missing" / "a.wav"), 24_000)
