from __future__ import annotations

import os
import resource
import signal
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ouzel.audio.wav import HEADER_BYTES, UNKNOWN_SIZE, WavWriter, pcm16, wav_header
from ouzel.errors import EngineError, OutputError

SAMPLES = arrays(np.float32, st.integers(0, 50), elements=st.floats(-4, 4, width=32))


def size_fields(data: bytes) -> tuple[int, int]:
    return int.from_bytes(data[4:8], "little"), int.from_bytes(data[40:44], "little")


@given(SAMPLES)
def test_pcm_is_the_nearest_number_and_clips(samples: np.ndarray) -> None:
    numbers = np.frombuffer(pcm16(samples), "<i2").astype(np.float64)
    assert np.abs(numbers - np.clip(samples.astype(np.float64), -1, 1) * 32767).max(initial=0) <= 0.5 + 1e-2
    assert numbers.min(initial=0) >= -32767


def test_pcm_of_known_samples() -> None:
    assert (
        pcm16(np.array([0, 1, -1, 2, -2, 0.5], np.float32))
        == np.array([0, 32767, -32767, 32767, -32767, 16384], "<i2").tobytes()
    )


@pytest.mark.parametrize("sample", [np.nan, np.inf, -np.inf])
def test_a_sample_that_is_no_number_is_an_engine_error(sample: float) -> None:
    with pytest.raises(EngineError, match="not a finite number"):
        pcm16(np.array([0, sample], np.float32))


@given(st.lists(SAMPLES, max_size=4), st.sampled_from([16_000, 24_000, 48_000]))
def test_the_file_holds_every_sample_at_its_rate(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[np.ndarray], rate: int
) -> None:
    path = tmp_path_factory.mktemp("wav") / "out.wav"
    with WavWriter(path, rate) as writer:
        for chunk in chunks:
            writer.write(chunk)
    with wave.open(str(path)) as reader:
        assert (reader.getframerate(), reader.getnchannels(), reader.getsampwidth()) == (rate, 1, 2)
        data = reader.readframes(reader.getnframes())
    assert data == b"".join(map(pcm16, chunks))
    assert size_fields(path.read_bytes()) == (path.stat().st_size - 8, path.stat().st_size - HEADER_BYTES)


def test_bytes_are_on_disk_before_the_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    writer = WavWriter(path)
    assert path.read_bytes() == wav_header(24_000)
    assert size_fields(path.read_bytes()) == (UNKNOWN_SIZE, UNKNOWN_SIZE)
    for frames in (1, 2):
        writer.write(np.zeros(1920, np.float32))
        assert path.stat().st_size == HEADER_BYTES + frames * 3840
        assert writer.seconds == pytest.approx(frames * 0.08)
    writer.close()
    writer.close()
    assert size_fields(path.read_bytes()) == (36 + 7680, 7680)


def test_a_pipe_gets_one_header_of_a_stream(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    read = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with WavWriter(fifo) as writer:
        writer.write(np.zeros(4, np.float32))
    with open(read, "rb") as pipe:
        assert pipe.read() == wav_header(24_000) + bytes(8)


def test_a_full_disk_is_an_output_error() -> None:
    with pytest.raises(OutputError, match="/dev/full cannot be written: No space left on device"):
        WavWriter("/dev/full")


@pytest.fixture
def one_frame_of_space() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HEADER_BYTES + 3840 + 99, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("one_frame_of_space")
def test_what_was_written_before_the_disk_was_full_stays_a_wav_file(tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    with WavWriter(path) as writer:
        writer.write(np.zeros(1920, np.float32))
        with pytest.raises(OutputError, match=r"out\.wav cannot be written: File too large") as caught:
            writer.write(np.zeros(1920, np.float32))
    assert caught.value.param == "output"
    with wave.open(str(path)) as reader:
        assert reader.getnframes() == 1920
    assert path.stat().st_size == HEADER_BYTES + 3840


@pytest.mark.parametrize(("name", "why"), [("missing/out.wav", "No such file or directory"), ("", "Is a directory")])
def test_a_path_that_cannot_be_written_is_an_output_error(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(OutputError, match=why):
        WavWriter(tmp_path / name)
