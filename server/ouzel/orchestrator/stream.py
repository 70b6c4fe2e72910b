"""A request's sound on its way to its consumer, and the playback position."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ouzel.orchestrator.pending import Pending
from ouzel.orchestrator.request import Command, Deliver, End, Request, State
from ouzel.scheduling import PlaybackCursor, ProgressDeadline
from ouzel.stats.phases import Phase

__all__ = ["AudioChunk", "Stream"]

NS = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioChunk:
    """A piece of sound, and what became of the time that it took."""

    request_id: str
    #: 0, 1, 2, … within the request
    sequence: int
    #: place of its sentence in the text
    sentence: int
    samples: NDArray[np.float32]  # [n] mono, in -1..1
    sample_rate: int
    frames: int
    #: ns in each phase
    phases: Mapping[Phase, int]
    #: ns that the voice waited for text
    starved_ns: int
    #: when it came out of the stages, s of the monotonic clock
    came_at: float


class Stream(Pending[AudioChunk]):
    """What is kept of an open request; it holds no more sound than the credits allow."""

    def __init__(
        self,
        request: Request,
        request_id: str,
        sample_rate: int,
        deadline: ProgressDeadline,
        act: Callable[[Stream, Sequence[Command]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param act: carries out what the request answers"""
        super().__init__(request_id, deadline)
        self.request = request
        self.cursor = PlaybackCursor()
        #: s that playback waits after the first sound, where the device is slower than playback
        self.start_delay_s = 0.0
        #: called once it has ended
        self.on_end: Callable[[], object] | None = None
        self._sample_rate = sample_rate
        self._act = act
        self._clock = clock
        self._sequence = 0
        self._playable_at = 0.0
        self._waiting_since: float | None = clock()
        self._starved_s = 0.0

    def act(self, commands: Sequence[Command]) -> None:
        """Carry out what the request answered to an event, and note whether it waits for text."""
        self._act(self, commands)
        waiting = self.request.state is State.WAITING
        if waiting and self._waiting_since is None:
            self._waiting_since = self._clock()
        elif not waiting and self._waiting_since is not None:
            # Before the first sentence nobody is starved yet: that time is its writer's own.
            self._starved_s += self._clock() - self._waiting_since if self._sequence else 0.0
            self._waiting_since = None

    def deliver(self, command: Deliver, hop_ns: int) -> None:
        """Take sound from the stages."""
        chunk, now = command.chunk, self._clock()
        if not self._sequence:
            self._playable_at = now + self.start_delay_s
        self._buffer.append(
            AudioChunk(
                request_id=self.id,
                sequence=self._sequence,
                sentence=command.sentence,
                samples=chunk.samples,
                sample_rate=self._sample_rate,
                frames=chunk.frames,
                phases=Counter(chunk.phases) + Counter({Phase.HOP: hop_ns}),
                starved_ns=chunk.starved_ns + int(self._starved_s / NS),
                came_at=now,
            )
        )
        self._sequence += 1
        self._starved_s = 0.0
        self._changed.set()

    def end(self, command: End) -> None:
        super().end(command)
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()

    async def next(self) -> AudioChunk | None:
        while True:
            pause = 0.0 if self._end else self._playable_at - self._clock()
            if self._buffer and pause <= 0:
                return self._take()
            if (end := self.ended) is not None:
                if end.fault is not None:
                    raise end.fault
                return None
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), pause if self._buffer else None)
            except TimeoutError:
                continue

    def _stop(self) -> None:
        self.act(self.request.abort())

    def _take(self) -> AudioChunk:
        chunk = self._buffer.popleft()
        self.cursor.deliver(chunk.frames, self._clock())
        self.deadline.progress()
        self.act(self.request.taken(chunk.frames, self.cursor.heard_until))
        return chunk
