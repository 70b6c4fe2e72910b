from __future__ import annotations

import io
import json
import subprocess

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ouzel.audio.chain import AudioChain, Shape, whole_file
from ouzel.audio.formats import FORMATS, find_format
from ouzel.audio.tempo import check_speed
from ouzel.audio.wav import pcm16
from ouzel.errors import RequestError

FRAME = 1920
#: samples at 24 kHz that a codec may add before and after: its delay, and a last frame filled up
PADDING = {"mp3": 3 * 576 + 1105, "aac": 3 * 1024, "opus": 0, "flac": 0, "wav": 0, "pcm": 0}


def speech(frames: int) -> np.ndarray:
    """Something like a voice: harmonics of 150 Hz that swell."""
    t = np.arange(frames * FRAME) / 24_000
    tone = sum(np.sin(2 * np.pi * 150 * k * t) / k for k in range(1, 6))
    return (0.2 * tone * (1 + np.sin(2 * np.pi * 3 * t)) / 2).astype(np.float32)


def encode(shape: Shape, samples: np.ndarray, cuts: list[int]) -> list[bytes]:
    chain = AudioChain(shape, 24_000)
    return [*(chain.encode(part) for part in np.split(samples, cuts)), chain.finish()]


def decode(name: str, data: bytes, rate: int = 24_000) -> np.ndarray:
    if name == "pcm":
        return np.frombuffer(data, "<i2") / 32767
    resampler = av.AudioResampler("flt", "mono", rate)
    with av.open(io.BytesIO(data)) as container:
        frames = [one for frame in container.decode(audio=0) for one in resampler.resample(frame)]
    frames += resampler.resample(None)
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])


def pitch(samples: np.ndarray) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * 24_000 / len(samples))


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_decodes_to_its_frames_within_its_padding(name: str) -> None:
    samples = speech(20)
    decoded = decode(name, b"".join(encode(Shape(FORMATS[name], 24_000), samples, [2 * FRAME, 6 * FRAME])))
    assert 0 <= len(decoded) - len(samples) <= PADDING[name]
    assert pitch(decoded) == pytest.approx(150, abs=3)


@pytest.mark.ffprobe
@pytest.mark.parametrize("name", [name for name in FORMATS if name != "pcm"])
def test_ffprobe_sees_the_format_and_its_length(name: str) -> None:
    shape = Shape(FORMATS[name], 24_000)
    data = whole_file(shape, encode(shape, speech(20), [FRAME]))
    command = ["ffprobe", "-v", "error", "-show_entries", "stream=codec_name:frame=nb_samples", "-of", "json", "-"]
    found = json.loads(subprocess.run(command, input=data, capture_output=True, check=True, timeout=20).stdout)
    codec = {"wav": "pcm_s16le"}.get(name, name)
    assert [stream["codec_name"] for stream in found["streams"]] == [codec]
    decoded = sum(int(frame["nb_samples"]) for frame in found["frames"]) * (0.5 if name == "opus" else 1)
    assert 0 <= decoded - 20 * FRAME <= PADDING[name] + (312 if name == "opus" else 0)


@pytest.mark.parametrize("name", FORMATS)
def test_bytes_come_before_the_end(name: str) -> None:
    chain = AudioChain(Shape(FORMATS[name], 24_000), 24_000)
    assert chain.encode(speech(2))
    assert chain.encode(speech(4))


@given(cuts=st.lists(st.integers(0, 4 * FRAME), max_size=5).map(sorted), name=st.sampled_from(list(FORMATS)))
@settings(max_examples=25, deadline=None)
def test_any_chunking_gives_the_same_samples(cuts: list[int], name: str) -> None:
    shape, samples = Shape(FORMATS[name], 24_000), speech(4)
    once, often = (decode(name, b"".join(encode(shape, samples, c))) for c in ([], cuts))
    assert np.array_equal(once, often)


@pytest.mark.parametrize("name", FORMATS)
def test_streamed_and_buffered_samples_are_equal(name: str) -> None:
    shape = Shape(FORMATS[name], 24_000)
    parts = encode(shape, speech(6), [2 * FRAME])
    assert np.array_equal(decode(name, b"".join(parts)), decode(name, whole_file(shape, parts)))


def test_a_buffered_wav_says_its_size() -> None:
    shape = Shape(FORMATS["wav"], 24_000)
    data = whole_file(shape, encode(shape, speech(3), [FRAME]))
    assert (int.from_bytes(data[40:44], "little"), len(data) - 44) == (3 * FRAME * 2, 3 * FRAME * 2)
    assert data.count(b"RIFF") == 1


@pytest.mark.parametrize("name", ["flac", "wav", "pcm"])
def test_lossless_formats_hold_the_samples(name: str) -> None:
    samples = speech(3)
    data = b"".join(encode(Shape(FORMATS[name], 24_000), samples, [FRAME]))
    numbers = np.rint(decode(name, data) * (32767 if name == "pcm" else 32768)).astype("<i2")
    assert numbers.tobytes() == pcm16(samples)


@pytest.mark.parametrize("name", FORMATS)
def test_no_sample_at_all_is_still_a_file(name: str) -> None:
    data = b"".join(encode(Shape(FORMATS[name], 24_000), np.zeros(0, np.float32), []))
    assert (data == b"") == (name == "pcm")


@pytest.mark.parametrize("speed", [0.25, 0.4, 0.5, 1.5, 4.0])
def test_speed_changes_the_length_and_not_the_pitch(speed: float) -> None:
    samples = speech(40)
    data = b"".join(encode(Shape(FORMATS["pcm"], 24_000, speed), samples, [2 * FRAME, 6 * FRAME]))
    heard = decode("pcm", data)
    assert len(heard) == pytest.approx(len(samples) / speed, abs=0.08 * 24_000)
    assert pitch(heard) == pytest.approx(150, abs=6)


@pytest.mark.parametrize("rate", [8_000, 22_050, 48_000])
def test_another_rate_keeps_length_and_pitch(rate: int) -> None:
    samples = speech(20)
    data = b"".join(encode(Shape(FORMATS["pcm"], rate), samples, [2 * FRAME]))
    heard = decode("pcm", data)
    assert len(heard) / rate == pytest.approx(len(samples) / 24_000, abs=2 / rate)
    assert pitch(heard) * rate / 24_000 == pytest.approx(150, abs=3)


@pytest.mark.parametrize(("rate", "speed"), [(24_000, 1.0), (8_000, 1.0), (24_000, 1.3), (48_000, 0.7)])
def test_raw_samples_leave_in_whole_codec_frames(rate: int, speed: float) -> None:
    parts = encode(Shape(FORMATS["pcm"], rate, speed), speech(20), [2 * FRAME, 6 * FRAME, 14 * FRAME])
    assert [len(part) % (rate * 2 * 80 // 1000) for part in parts[:-1]] == [0] * 4


def test_the_chain_knows_how_long_its_audio_is() -> None:
    chain = AudioChain(Shape(FORMATS["mp3"], 24_000), 24_000)
    chain.encode(speech(3))
    assert chain.audio_ms == 240


def test_raw_samples_say_how_to_read_them() -> None:
    assert Shape(FORMATS["pcm"], 16_000).content_type == "audio/pcm; rate=16000; channels=1"
    assert Shape(FORMATS["opus"], 16_000).content_type == "audio/opus"


@pytest.mark.parametrize(
    ("check", "param", "words"),
    [
        (lambda: find_format("ogg"), "response_format", "'ogg' is no format here; valid are mp3, opus"),
        (lambda: FORMATS["opus"].check_rate(44_100), "sample_rate", "44100 Hz isn't possible in opus; valid are 8000"),
        (lambda: check_speed(4.1), "speed", "4.1 is outside 0.25 to 4"),
        (lambda: check_speed(float("nan")), "speed", "nan is outside"),
    ],
)
def test_what_is_not_possible_is_a_request_error(check, param: str, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RequestError, match=words) as caught:
        check()
    assert caught.value.param == param
