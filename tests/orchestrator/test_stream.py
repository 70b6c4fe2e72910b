from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest

from ouzel.config.schema import LimitsConfig
from ouzel.errors import EngineError
from ouzel.orchestrator.request import Command, Deliver, End, Request, Wishes
from ouzel.orchestrator.stream import Stream
from ouzel.scheduling import ProgressDeadline
from ouzel.stages.core import FinishReason, SamplesChunk
from ouzel.stages.messages import Credit
from ouzel.stats.phases import Phase


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Harness:
    """A stream whose commands are noted, and delivered to it as the desk would."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.sent: list[Command] = []
        request = Request(0, Wishes(), LimitsConfig(), 25, count(1).__next__)
        self.stream = Stream(request, "r1", 24_000, ProgressDeadline(9, self.clock), self.carry_out, self.clock)

    def carry_out(self, stream: Stream, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Deliver():
                    stream.deliver(command, hop_ns=5)
                case End():
                    stream.end(command)
                case _:
                    self.sent.append(command)

    def text(self, sentence: str) -> None:
        self.stream.act(self.stream.request.text(sentence))

    def sound(self, sequence: int, frames: int, finish: FinishReason | None = None, *, epoch: int = 1) -> None:
        chunk = SamplesChunk(
            slot=0,
            epoch=epoch,
            sequence=sequence,
            samples=np.zeros(1920 * frames, np.float32),
            frames=frames,
            finish=finish,
            phases={Phase.HOP: 2},
        )
        self.stream.act(self.stream.request.chunk(chunk))


async def test_taking_sound_grants_more_and_says_how_far_playback_is() -> None:
    harness = Harness()
    harness.text("Hello.")
    harness.sound(0, 2)
    chunk = await harness.stream.next()
    assert chunk is not None and chunk.phases == {Phase.HOP: 7}
    credit = harness.sent[-1]
    assert isinstance(credit, Credit)
    assert credit.grant.frames == 252 and credit.grant.heard_until == pytest.approx(100.16)


async def test_the_wait_for_text_is_told_with_the_sound_that_follows_it() -> None:
    harness = Harness()
    harness.clock.now += 7
    harness.text("One.")
    harness.sound(0, 1, FinishReason.STOP)
    harness.clock.now += 3
    harness.text("Two.")
    harness.sound(0, 1, FinishReason.STOP, epoch=2)
    first, second = await harness.stream.next(), await harness.stream.next()
    assert first is not None and first.starved_ns == 0, "before the first sentence nobody waits but its writer"
    assert second is not None and second.starved_ns == pytest.approx(3e9)


async def test_a_start_delay_holds_the_first_sound_until_it_is_over_or_all_is_made() -> None:
    harness = Harness()
    harness.stream.start_delay_s = 60
    harness.text("Hello.")
    harness.sound(0, 2)
    waiting = asyncio.ensure_future(harness.stream.next())
    await asyncio.sleep(0)
    assert not waiting.done()
    harness.clock.now += 61
    harness.sound(1, 4)
    assert (await waiting).frames == 2  # type: ignore[union-attr]

    early = Harness()
    early.stream.start_delay_s = 60
    early.text("Hello.")
    early.sound(0, 2)
    early.stream.act(early.stream.request.text_over())
    early.sound(1, 0, FinishReason.STOP)
    assert (await early.stream.next()).frames == 2  # type: ignore[union-attr]
    assert await early.stream.next() is None


async def test_what_failed_is_raised_after_its_last_sound_and_by_every_later_call() -> None:
    harness = Harness()
    harness.text("Hello.")
    harness.sound(0, 2)
    await harness.stream.wait()
    fault = EngineError("a stage died")
    harness.stream.act(harness.stream.request.fail(fault))
    assert harness.stream.ended is None
    await harness.stream.wait()
    assert await harness.stream.next() is not None
    for _ in range(2):
        with pytest.raises(EngineError, match="a stage died"):
            await harness.stream.next()
    with pytest.raises(EngineError, match="a stage died"):
        await harness.stream.wait()
