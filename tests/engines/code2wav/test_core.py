from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from ouzel.engines.code2wav import Code2WavCore
from ouzel.models.qwen3_tts.checkpoint import load_codec_decoder
from ouzel.models.qwen3_tts.codec_stream import StreamingDecoder
from ouzel.stages.core import CodesChunk, DecodeRequest, FinishReason, SamplesChunk
from ouzel.stats.phases import Phase
from ouzel.stats.steps import StepStats
from tiny_cores import Clock
from tiny_voice import GROUPS, SAMPLES_PER_FRAME

CODES = np.random.default_rng(0).integers(0, 128, (40, GROUPS)).astype(np.uint16)


class Marks:
    """A decoder whose sound is the first code of each frame; it takes 10 ms, and some codes are not a sound."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def init_state(self) -> int:
        return 0

    def step(self, codes: Tensor, state: int) -> tuple[Tensor, int]:
        self._clock.sleep(0.01)
        marks = codes[:, 0] / 1000
        return torch.where(marks == 0.127, torch.nan, marks), state + codes.shape[-1]


def chunk(sequence: int, *marks: int, slot: int = 0, epoch: int = 1, put_ns: int = 0, **others: object) -> CodesChunk:
    codes = np.array(marks, np.uint16)[:, None].repeat(GROUPS, 1)
    return CodesChunk(slot=slot, epoch=epoch, sequence=sequence, codes=codes, put_ns=put_ns, **others)


def marked() -> tuple[Code2WavCore, Clock]:
    clock = Clock()
    return Code2WavCore(Marks(clock), clock=clock), clock


def run(core: Code2WavCore) -> list[SamplesChunk]:
    chunks = []
    while core.has_work:
        chunks += core.step()
    return chunks


@cache
def decoder(folder: Path) -> StreamingDecoder:
    return StreamingDecoder(load_codec_decoder(folder))


@cache
def whole(folder: Path) -> NDArray[np.float32]:
    return sound(folder, [len(CODES)])


def sound(folder: Path, sizes: list[int]) -> NDArray[np.float32]:
    core = Code2WavCore(decoder(folder))
    core.add(DecodeRequest(0, 1))
    start = 0
    for sequence, size in enumerate(sizes):
        codes = CODES[start : start + size]
        start += size
        finish = FinishReason.STOP if start == len(CODES) else None
        core.feed(0, CodesChunk(slot=0, epoch=1, sequence=sequence, codes=codes, finish=finish))
    chunks = run(core)
    assert [one.frames for one in chunks] == sizes
    assert [len(one.samples) for one in chunks] == [size * SAMPLES_PER_FRAME for size in sizes]
    assert [one.finish for one in chunks] == [None] * (len(sizes) - 1) + [FinishReason.STOP]
    return np.concatenate([one.samples for one in chunks])


@settings(max_examples=8)
@given(cuts=st.sets(st.integers(1, len(CODES) - 1), max_size=6))
def test_chunk_boundaries_cannot_be_heard(tiny_voice: Path, cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(CODES)]
    sizes = [end - start for start, end in zip(edges, edges[1:], strict=False)]
    np.testing.assert_allclose(sound(tiny_voice, sizes), whole(tiny_voice), rtol=0, atol=2e-5)


def test_an_end_without_frames_carries_its_reason() -> None:
    core, _ = marked()
    core.add(DecodeRequest(0, 1))
    core.feed(0, chunk(0, 1, 2))
    core.feed(0, chunk(1, finish=FinishReason.LENGTH))
    first, last = run(core)
    assert (first.samples.tolist(), first.finish) == (pytest.approx([0.001, 0.002]), None)
    assert (len(last.samples), last.frames, last.finish, last.sequence) == (0, 0, FinishReason.LENGTH, 1)


def test_the_earliest_deadline_is_decoded_first() -> None:
    core, clock = marked()
    for slot in range(3):
        core.add(DecodeRequest(slot, 1))
    core.feed(0, chunk(0, 1, 1))
    run(core)  # its listener has 160 ms
    clock.sleep(0.05)
    core.feed(1, chunk(0, 1, slot=1))
    run(core)  # this one 80 ms
    core.feed(0, chunk(1, 1))
    core.feed(1, chunk(1, 1, slot=1))
    core.feed(2, chunk(0, 1, slot=2))  # and this one nothing yet
    assert [one.slot for one in run(core)] == [2, 1, 0]


def test_one_stream_is_decoded_in_a_step() -> None:
    core, _ = marked()
    for slot in range(2):
        core.add(DecodeRequest(slot, 1))
        core.feed(slot, chunk(0, 1, slot=slot))
    assert [len(core.step()) for _ in range(2)] == [1, 1]


def test_what_comes_late_for_an_old_epoch_is_dropped() -> None:
    core, _ = marked()
    core.add(DecodeRequest(0, 1))
    core.feed(0, chunk(0, 1))
    core.abort(0)
    core.add(DecodeRequest(0, 2))
    core.feed(0, chunk(1, 1, epoch=1, finish=FinishReason.STOP))
    core.feed(0, chunk(0, 9, epoch=2, finish=FinishReason.STOP))
    ends = run(core)
    assert [(one.epoch, one.finish, one.frames) for one in ends] == [
        (1, FinishReason.CANCELLED, 0),
        (2, FinishReason.STOP, 1),
    ]
    core.feed(0, chunk(1, 9, epoch=2))
    core.abort(0)
    assert not core.has_work


@pytest.mark.parametrize(
    ("bad", "message"),
    [(chunk(2, 5), "chunk 2 of codes came where 1 was due"), (chunk(1, 127), "not a finite number")],
)
def test_a_fault_ends_its_own_stream_once(bad: CodesChunk, message: str) -> None:
    core, _ = marked()
    for slot in range(2):
        core.add(DecodeRequest(slot, 1))
        core.feed(slot, chunk(0, 1, slot=slot))
    core.feed(0, bad)
    core.feed(0, chunk(2, 1, finish=FinishReason.STOP))
    core.feed(1, chunk(1, 1, slot=1, finish=FinishReason.STOP))
    chunks = run(core)
    ends = {one.slot: one for one in chunks if one.last}
    assert [one.slot for one in chunks if one.last].count(0) == 1
    assert (ends[0].finish, ends[1].finish) == (FinishReason.ERROR, FinishReason.STOP)
    assert message in str(ends[0].fault)


def test_codes_that_this_codec_does_not_have_are_a_fault_of_the_stream(tiny_voice: Path) -> None:
    core = Code2WavCore(decoder(tiny_voice))
    core.add(DecodeRequest(0, 1))
    core.feed(0, chunk(0, 500))
    (last,) = run(core)
    assert last.finish is FinishReason.ERROR
    assert "500" in str(last.fault)


def test_hop_and_codec_are_counted_and_travel_with_the_chunk() -> None:
    clock = Clock()
    stats = StepStats("code2wav", clock)
    core = Code2WavCore(Marks(clock), clock=clock, stats=stats)
    core.add(DecodeRequest(0, 1))
    clock.sleep(0.003)
    core.feed(0, chunk(0, 1, 1, phases={Phase.PREDICTOR: 7}))
    (one,) = run(core)
    assert {phase: ns for phase, ns in one.phases.items() if ns} == {
        Phase.PREDICTOR: 7,
        Phase.HOP: 3_000_000,
        Phase.CODEC: 10_000_000,
    }
    snapshot = stats.snapshot()
    assert snapshot.frames == 2
    assert snapshot.inside[Phase.CODEC].total_ns == 10_000_000
    assert snapshot.beside[Phase.HOP].total_ns == 3_000_000
