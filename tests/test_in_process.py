from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ouzel.config import load_config
from ouzel.errors import BusyError, EngineError, NotFoundError, RequestError
from ouzel.in_process import InProcess, Wishes
from ouzel.models.qwen3_tts.sampler import Sampler
from ouzel.stages.core import FinishReason, SamplingWishes
from tiny_cores import SEEDS

LONG = SamplingWishes(seed=SEEDS[0])
CONFIG = load_config(("qwen3_tts",), environ={}, flags={"limits.buffer_frames": 99}).config


@pytest.fixture(scope="module")
def loaded(tiny_voice: Path) -> InProcess:
    return InProcess.load(tiny_voice, CONFIG, threads=1, step_stats=True)


@pytest.fixture
def voice(loaded: InProcess) -> Iterator[InProcess]:
    yield loaded
    loaded.speak("hello", Wishes(max_frames=1)).close()  # whatever a test did, the next one can speak


def wishes(frames: int = 20, **others: object) -> Wishes:
    return Wishes(sampling=LONG, max_frames=frames, **others)


def test_an_utterance_comes_in_the_schedules_chunks(voice: InProcess) -> None:
    sounds = list(voice.speak("Hello there.", wishes()))
    assert [sound.frames for sound in sounds] == [2, 4, 8, 6]
    assert [len(sound.samples) for sound in sounds] == [1920 * sound.frames for sound in sounds]
    assert [sound.finish for sound in sounds] == [None, None, None, FinishReason.LENGTH]


def test_the_first_sound_leaves_before_the_third_frame_is_made(voice: InProcess) -> None:
    utterance = voice.speak("Hello there.", wishes())
    made_before = voice.snapshots()[0].frames
    next(utterance)
    assert voice.snapshots()[0].frames - made_before == 2
    utterance.close()


def test_the_same_seed_gives_the_same_speech(voice: InProcess) -> None:
    twice = [np.concatenate([sound.samples for sound in voice.speak("Hello.", wishes())]) for _ in range(2)]
    np.testing.assert_array_equal(*twice)


def test_sentences_follow_each_other_and_end_once(voice: InProcess) -> None:
    sounds = list(voice.speak("Hello there. The World! Is 12 a user?", wishes(frames=300)))
    assert sorted({sound.sentence for sound in sounds if sound.frames}) == [0, 1, 2]
    assert sum(sound.finish is not None for sound in sounds) == 1 and sounds[-1].finish is not None


def test_a_limit_is_that_of_the_whole_text(voice: InProcess) -> None:
    sounds = list(voice.speak("Hello there. The World! Is 12 a user?", wishes(frames=25)))
    assert [sum(sound.frames for sound in sounds if sound.sentence == place) for place in range(3)] == [22, 3, 0]
    assert sounds[-1].finish is FinishReason.LENGTH


def test_one_sentence_that_was_cut_off_is_told_of_the_whole(voice: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = Sampler.sample_c0
    eos = 230

    def ends_the_second(self: Sampler, logits: object) -> int:
        return eos if self.params.seed == SEEDS[0] + 1 else sample(self, logits)

    monkeypatch.setattr(Sampler, "sample_c0", ends_the_second)
    assert [sound.finish for sound in voice.speak("Hello there. The World!", wishes(frames=3))][-1] == "length"
    stopping = Wishes(sampling=SamplingWishes(seed=SEEDS[0] + 1))
    assert [sound.finish for sound in voice.speak("The World!", stopping)] == [FinishReason.STOP]


def test_closing_ends_the_work_at_once(voice: InProcess) -> None:
    utterance = voice.speak("Hello there. The World!", wishes(frames=400))
    next(utterance)
    made = voice.snapshots()[0].frames
    utterance.close()
    utterance.close()
    assert list(utterance) == []
    assert voice.snapshots()[0].frames == made
    assert sum(sound.frames for sound in voice.speak("Hello.", wishes(frames=3))) == 3


def test_an_utterance_that_nobody_listened_to_can_be_closed(voice: InProcess) -> None:
    voice.speak("Hello.").close()
    assert list(voice.speak("Hello.", wishes(frames=1)))


def test_one_utterance_at_a_time(voice: InProcess) -> None:
    utterance = voice.speak("Hello.")
    with pytest.raises(BusyError, match="still open"):
        voice.speak("Hello.")
    utterance.close()


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        (Wishes(speaker="rian"), NotFoundError),
        (Wishes(language="klingon"), RequestError),
        (Wishes(chunk_frames=(3, 2)), RequestError),
        (Wishes(chunk_frames=(2, 100)), RequestError),
        (Wishes(sampling=SamplingWishes(temperature=-1)), RequestError),
    ],
)
def test_bad_wishes_are_refused_before_anything_is_made(
    voice: InProcess, wish: Wishes, error: type[RequestError]
) -> None:
    with pytest.raises(error):
        voice.speak("Hello.", wish)


def test_a_fault_ends_the_utterance_and_the_voice_goes_on(voice: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(self: Sampler, logits: object) -> int:
        raise EngineError("no numbers")

    with monkeypatch.context() as patched:
        patched.setattr(Sampler, "sample_group", faulty)
        with pytest.raises(EngineError, match="no numbers"):
            list(voice.speak("Hello. The World.", wishes()))
    assert list(voice.speak("Hello.", wishes(frames=1)))


def test_the_limit_of_a_sentence_follows_its_length(voice: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    never = Sampler.sample_c0

    def never_ends(self: Sampler, logits: object) -> int:
        return min(never(self, logits), 127)

    monkeypatch.setattr(Sampler, "sample_c0", never_ends)
    short = sum(sound.frames for sound in voice.speak("hello", Wishes(chunk_frames=(25,))))
    assert short == 36  # (5 letters / 15 a second * 2.5 + 2 s) * 12.5, rounded up


def test_chunks_of_another_schedule_sound_the_same(voice: InProcess) -> None:
    ramp = np.concatenate([sound.samples for sound in voice.speak("Hello.", wishes())])
    single = np.concatenate([sound.samples for sound in voice.speak("Hello.", wishes(chunk_frames=(1,)))])
    np.testing.assert_allclose(single, ramp, rtol=0, atol=2e-5)
