"""The voice inside the package: whatever it was trained to, it loads, speaks, ends and fits."""

from __future__ import annotations

import math
import time
import wave
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from ouzel import voices
from ouzel.audio.wav import HEADER_BYTES, WavWriter
from ouzel.cli import app
from ouzel.config import load_config
from ouzel.engines.talker import TalkerCore
from ouzel.in_process import InProcess, Wishes
from ouzel.models.qwen3_tts.config import load_config as load_voice
from ouzel.scheduling import frame_limit
from ouzel.stages.core import SamplingWishes

TEXT = "The river is high today, and 42 boats are on it."
SAID = "the river is high today, and forty-two boats are on it."
MOST_BYTES = 25 << 20


@pytest.fixture(scope="module")
def voice() -> InProcess:
    config = load_config(("qwen3_tts",), environ={}).config
    return InProcess.load(voices.find_voice(voices.DEFAULT_VOICE), config, threads=1)


def spoken(voice: InProcess, text: str, *, seed: int = 1, **wishes: object) -> NDArray[np.float32]:
    # -> [samples]
    utterance = voice.speak(text, Wishes(sampling=SamplingWishes(seed=seed), **wishes))
    return np.concatenate([sound.samples for sound in utterance])


def test_all_voices_together_stay_within_their_bound() -> None:
    folder = Path(voices.__file__).parent
    carried = voices.carried_voices()
    assert voices.DEFAULT_VOICE in carried
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) <= MOST_BYTES


def test_it_keeps_the_published_rates_and_wants_its_text_in_words() -> None:
    config = load_voice(voices.find_voice(voices.DEFAULT_VOICE))
    assert config.codec is not None and config.extras is not None
    assert (config.codec.sample_rate, config.codec.samples_per_frame) == (24_000, 1920)
    assert config.codec.num_code_groups == config.talker.num_code_groups
    assert config.extras.text == "normalize"


@pytest.mark.parametrize("streaming", [False, True])
def test_a_sentence_has_a_plausible_length_and_can_be_heard(voice: InProcess, streaming: bool) -> None:
    samples = spoken(voice, TEXT, streaming_layout=streaming)
    frames = len(samples) / 1920
    # A hurried speaker's 30 letters a second at the least, its frame limit at the most.
    assert len(SAID) / 30 * 12.5 <= frames <= frame_limit(len(SAID))
    assert frames == math.floor(frames)
    assert np.abs(samples).max() <= 1
    assert np.sqrt(np.square(samples).mean()) > 0.01, "as good as silent"


def test_a_seed_repeats_its_speech_and_another_does_not(voice: InProcess) -> None:
    first, again, *others = (spoken(voice, TEXT, seed=seed, max_frames=40) for seed in (1, 1, 2, 3, 4))
    np.testing.assert_array_equal(first, again)
    # A voice that is sure of its words may begin alike.
    assert not all(np.array_equal(first, other) for other in others)


@pytest.mark.parametrize("streaming", [False, True])
def test_figures_sound_as_their_words(voice: InProcess, streaming: bool) -> None:
    written, said = (
        spoken(voice, text, max_frames=12, streaming_layout=streaming) for text in ("42 boats.", "forty-two boats.")
    )
    np.testing.assert_array_equal(written, said)


def test_the_first_bytes_are_on_disk_before_the_last_frame_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "demo.wav"
    made: list[int] = []
    written: list[tuple[int, int]] = []
    step, write = TalkerCore.step, WavWriter.write

    def timed_step(self: TalkerCore) -> object:
        chunks = step(self)
        made.extend(time.monotonic_ns() for chunk in chunks if chunk.frames)
        return chunks

    def timed_write(self: WavWriter, samples: NDArray[np.floating]) -> None:
        write(self, samples)
        written.append((time.monotonic_ns(), out.stat().st_size))

    monkeypatch.setattr(TalkerCore, "step", timed_step)
    monkeypatch.setattr(WavWriter, "write", timed_write)
    arguments = ["say", TEXT, "-o", str(out), "--seed", "1", "--threads", "1", "--in-process", "--step-stats"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    (first_on_disk, size), last_made = written[0], made[-1]
    assert size > HEADER_BYTES
    assert first_on_disk < last_made
    with wave.open(str(out)) as file:
        assert file.getnframes() > (size - HEADER_BYTES) / 2
    for word in ("first audio", "real-time factor", "of 80 ms", "backbone", "predictor", "codec"):
        assert word in result.stdout
