from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ouzel.errors import BusyError, EngineError, NotFoundError, RequestError
from ouzel.models.qwen3_tts.prompt import PromptSpec
from ouzel.models.qwen3_tts.sampler import Sampler, SamplingParams
from ouzel.stages.core import FinishReason, Grant, SamplingWishes, TalkerRequest
from ouzel.stats.phases import Phase
from ouzel.stats.steps import StepStats
from tiny_cores import LIMIT, SEEDS, SENTENCES, alone, codes_of, request, run, talker_core, talker_side
from tiny_speech import speak

GREEDY = SamplingWishes(do_sample=False, sub_do_sample=False)


def plain_loop(folder: Path, one: TalkerRequest) -> NDArray[np.uint16]:
    """The same request through prefill, decode and predict, without an engine."""
    side = talker_side(folder)
    spec = PromptSpec(text=one.text or "", language=one.language, speaker="ryan", streaming_layout=one.streaming_layout)
    params = SamplingParams.of(side.generation, **one.sampling.given())
    return speak(side, side.prompts().build(spec), params, one.max_frames).numpy().astype(np.uint16)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("sampling", [GREEDY, SamplingWishes(seed=5), SamplingWishes(seed=6, temperature=0.5)])
def test_one_stream_gives_the_codes_of_the_plain_loop(
    tiny_voice: Path, streaming: bool, sampling: SamplingWishes
) -> None:
    one = request(streaming_layout=streaming, sampling=sampling, max_frames=64)
    np.testing.assert_array_equal(alone(tiny_voice, one), plain_loop(tiny_voice, one))


def test_speech_that_ends_by_itself_says_stop(tiny_voice: Path) -> None:
    one = request(sampling=SamplingWishes(seed=2), max_frames=500)
    core = talker_core(tiny_voice)
    core.add(one)
    chunks = run(core)
    assert chunks[-1].finish is FinishReason.STOP
    np.testing.assert_array_equal(codes_of(chunks), plain_loop(tiny_voice, one))


def test_the_frame_limit_says_length(tiny_voice: Path) -> None:
    core = talker_core(tiny_voice)
    core.add(request(max_frames=7))
    chunks = run(core)
    assert [chunk.frames for chunk in chunks] == [2, 4, 1]
    assert [chunk.finish for chunk in chunks] == [None, None, FinishReason.LENGTH]


def test_streams_in_one_batch_speak_as_each_alone(tiny_voice: Path) -> None:
    requests = [request(slot, SENTENCES[slot % 3], streaming_layout=slot == 1) for slot in range(4)]
    core = talker_core(tiny_voice)

    def join(step: int) -> None:
        if step % 3 == 0 and step // 3 < len(requests):
            core.add(requests[step // 3])

    chunks = run(core, join)
    for one in requests:
        np.testing.assert_array_equal(codes_of(chunks, one.slot), alone(tiny_voice, one))


def test_a_frame_is_handed_on_before_the_backbone_reads_it(tiny_voice: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    core, talker = talker_core(tiny_voice), talker_side(tiny_voice).talker
    read = 0
    decode = talker.decode

    def counting(rows: torch.Tensor, caches: object) -> torch.Tensor:
        nonlocal read
        read += 1
        return decode(rows, caches)

    monkeypatch.setattr(talker, "decode", counting)
    core.add(request())
    first = next(chunk for _ in range(99) for chunk in core.step())
    assert (first.frames, read) == (2, 1)


def test_an_abort_at_any_step_ends_that_stream_once_and_no_other(tiny_voice: Path) -> None:
    other = alone(tiny_voice, request(1, SENTENCES[1]))
    for moment in range(LIMIT + 4):
        core = talker_core(tiny_voice, rows=8)
        core.add(request(0))
        core.add(request(1, SENTENCES[1]))
        chunks = run(core, lambda step, core=core, moment=moment: core.abort(0) if step == moment else None)
        codes_of(chunks, 0)
        ends = [chunk.finish for chunk in chunks if chunk.slot == 0 and chunk.last]
        assert ends in ([FinishReason.CANCELLED], [FinishReason.LENGTH])
        np.testing.assert_array_equal(codes_of(chunks, 1), other)


def test_an_aborted_slot_is_free_at_once_and_its_successor_is_whole(tiny_voice: Path) -> None:
    core = talker_core(tiny_voice)
    core.add(request())
    core.step()
    core.abort(0)
    core.abort(0)
    core.add(request(epoch=2))
    chunks = run(core)
    assert [chunk.finish for chunk in chunks if chunk.epoch == 1] == [FinishReason.CANCELLED]
    np.testing.assert_array_equal(codes_of(chunk for chunk in chunks if chunk.epoch == 2), alone(tiny_voice, request()))


def test_what_has_no_stream_is_left_alone(tiny_voice: Path) -> None:
    core = talker_core(tiny_voice)
    core.abort(3)
    assert not core.has_work
    core.add(request(3))
    with pytest.raises(EngineError, match="slot 3 still belongs to epoch 1"):
        core.add(request(3, epoch=2))


def test_a_prompt_is_read_in_pieces(tiny_voice: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talker = talker_side(tiny_voice).talker
    expected = alone(tiny_voice, request())
    pieces = []
    prefill = talker.prefill
    monkeypatch.setattr(talker, "prefill", lambda rows, cache: (pieces.append(len(rows)), prefill(rows, cache))[1])
    core = talker_core(tiny_voice, rows=5)
    core.add(request())
    np.testing.assert_array_equal(codes_of(run(core)), expected)
    assert len(pieces) > 2
    assert set(pieces[:-1]) == {5}


def test_credits_bound_what_is_made_and_change_nothing_else(tiny_voice: Path) -> None:
    core = talker_core(tiny_voice)
    core.add(request(granted_frames=3))
    chunks = run(core)
    assert sum(chunk.frames for chunk in chunks) == 2  # the third frame waits for its chunk
    core.feed(0, Grant(epoch=9, frames=1000))
    core.feed(0, Grant(epoch=1, frames=2))
    assert not core.has_work
    core.feed(0, Grant(epoch=1, frames=1000))
    chunks += run(core)
    np.testing.assert_array_equal(codes_of(chunks), alone(tiny_voice, request()))


def test_a_request_waits_for_memory_and_the_queue_is_bounded(tiny_voice: Path) -> None:
    core = talker_core(tiny_voice, sequences=1, waiting=1)
    core.add(request(0))
    core.add(request(1))
    with pytest.raises(BusyError):
        core.add(request(2))
    chunks = run(core)
    ends = [chunk.slot for chunk in chunks if chunk.last]
    assert ends == [0, 1]
    first_of_1 = next(place for place, chunk in enumerate(chunks) if chunk.slot == 1)
    assert all(chunk.slot == 1 for chunk in chunks[first_of_1:])


def test_a_stream_that_waits_for_memory_is_no_work(tiny_voice: Path) -> None:
    core = talker_core(tiny_voice, sequences=1)
    core.add(request(0, granted_frames=0))
    core.add(request(1))
    run(core)
    assert not core.has_work
    core.abort(0)
    assert [chunk.slot for chunk in run(core) if chunk.last] == [0, 1]


@pytest.mark.parametrize(
    ("change", "error", "param"),
    [
        ({"text": "  "}, RequestError, "text"),
        ({"language": "klingon"}, RequestError, "language"),
        ({"speaker": "rian"}, NotFoundError, "voice"),
        ({"sampling": SamplingWishes(temperature=0.0)}, RequestError, "temperature"),
        ({"chunk_frames": (4, 2)}, RequestError, "chunk_frames"),
        ({"max_frames": 5000}, RequestError, None),
    ],
)
def test_what_cannot_be_served_is_refused_and_leaves_nothing(
    tiny_voice: Path, change: dict[str, object], error: type[RequestError], param: str | None
) -> None:
    core = talker_core(tiny_voice)
    with pytest.raises(error) as caught:
        core.add(request(**change))
    assert caught.value.param == param
    assert not core.has_work
    core.add(request())


@pytest.mark.parametrize(("fault_in", "frames"), [("sample_c0", 5), ("sample_group", 4)])
def test_a_fault_ends_its_own_request_only(
    tiny_voice: Path, monkeypatch: pytest.MonkeyPatch, fault_in: str, frames: int
) -> None:
    expected = alone(tiny_voice, request(1, SENTENCES[1]))
    sample = getattr(Sampler, fault_in)

    def faulty(self: Sampler, logits: torch.Tensor) -> int:
        return sample(self, logits * torch.nan if self.params.seed == SEEDS[0] and self._drawn > 4 else logits)

    monkeypatch.setattr(Sampler, fault_in, faulty)
    core = talker_core(tiny_voice)
    core.add(request(0))
    core.add(request(1, SENTENCES[1]))
    chunks = run(core)
    np.testing.assert_array_equal(codes_of(chunks, 1), expected)
    last = next(chunk for chunk in chunks if chunk.slot == 0 and chunk.last)
    assert last.finish is FinishReason.ERROR
    assert "logits are not numbers" in str(last.fault)
    assert len(codes_of(chunks, 0)) == frames


def test_each_phase_is_counted_and_travels_with_the_chunk(tiny_voice: Path) -> None:
    stats = StepStats("talker")
    core = talker_core(tiny_voice, stats=stats)
    core.add(request())
    chunks = run(core)
    expected = {Phase.SCHEDULE, Phase.PREFILL, Phase.BACKBONE, Phase.SAMPLE, Phase.PREDICTOR, Phase.UPDATE}
    snapshot = stats.snapshot()
    assert snapshot.frames == LIMIT
    assert expected | {Phase.OTHER} == snapshot.inside.keys()
    assert snapshot.beside.keys() == {Phase.TEXT, Phase.QUEUE}
    assert {Phase.TEXT, Phase.QUEUE, Phase.PREFILL, Phase.PREDICTOR} <= chunks[0].phases.keys()
    assert Phase.PREFILL not in chunks[1].phases
