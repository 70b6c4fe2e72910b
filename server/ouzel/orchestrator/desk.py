"""The desk between requests and stages: who gets which record, and where a command goes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from ouzel.config.schema import LimitsConfig
from ouzel.errors import EngineError, OuzelError
from ouzel.orchestrator.pace import Fitting
from ouzel.orchestrator.request import Command, Deliver, End, Request, State, Wishes
from ouzel.orchestrator.slots import Slots
from ouzel.orchestrator.stream import Stream
from ouzel.scheduling import ProgressDeadline
from ouzel.stages.chunk_records import unpack_samples
from ouzel.stages.messages import (
    Abort,
    AskStats,
    Credit,
    FromStage,
    Refused,
    ResetStats,
    Speak,
    StatsReply,
    Text,
    ToStage,
)
from ouzel.stats.phases import Phase
from ouzel.stats.snapshot import Snapshot
from ouzel.stats.steps import Stats
from ouzel.transfer import RingReader

__all__ = ["Desk"]

#: A stage answers between two steps; one that is down doesn't.
_STATS_WITHIN_S = 1.0


class Stages(Protocol):
    """Where commands go."""

    def send(self, name: str, message: ToStage) -> None: ...


class Desk:
    """Knows every open request. All of it runs on the event loop."""

    def __init__(
        self,
        names: Sequence[str],
        limits: LimitsConfig,
        slots: Slots,
        stats: Stats,
        fitting: Fitting,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param names: of the stages; the first one takes text"""
        self.stages: Stages | None = None
        self.streams: dict[int, Stream] = {}
        self._names = names
        self._limits = limits
        self._slots = slots
        self._stats = stats
        self._fitting = fitting
        self._clock = clock
        self._reader: RingReader | None = None
        self._hop_ns = 0
        self._asked: dict[str, asyncio.Future[StatsReply]] = {}

    def open(self, wishes: Wishes, request_id: str, sample_rate: int, largest_chunk: int) -> Stream:
        """A request without text yet.

        :raises BusyError: when the queue is at its bound.
        """
        request = Request(self._slots.take(), wishes, self._limits, largest_chunk, self._slots.next_epoch)
        deadline = ProgressDeadline(self._limits.progress_deadline_s, self._clock)
        stream = Stream(request, request_id, sample_rate, deadline, self._carry_out, self._clock)
        self.streams[request.slot] = stream
        return stream

    def check_deadlines(self) -> None:
        """End the requests that nothing has moved in, though it wasn't for their text or their consumer to move."""
        for stream in list(self.streams.values()):
            request = stream.request
            if request.waits_for_text or request.waits_for_consumer:
                stream.deadline.progress()
            elif stream.deadline.expired:
                silent = f"no progress for {stream.deadline.idle_s:.1f} s"
                stream.act(request.fail(EngineError(f"request {stream.id}: {silent}")))

    def forget_stats(self) -> None:
        """Begin to count again, in all stages and here."""
        for name in self._names:
            self._send(name, ResetStats())
        self._stats.reset()

    async def snapshots(self) -> list[Snapshot]:
        """Step statistics of all stages that answer."""
        loop = asyncio.get_running_loop()
        futures = [self._asked.setdefault(name, loop.create_future()) for name in self._names]
        for name in self._names:
            self._send(name, AskStats())
        done, _ = await asyncio.wait(futures, timeout=_STATS_WITHIN_S)
        self._asked.clear()
        return [Snapshot.from_json(one) for future in done for one in future.result().snapshots]

    def heard(self, name: str, message: FromStage) -> None:
        """A stage said something."""
        match message:
            case Refused(slot, epoch, fault):
                if (stream := self.streams.get(slot)) is not None:
                    stream.act(stream.request.refused(epoch, fault.error()))
            case StatsReply():
                if (asked := self._asked.get(name)) is not None and not asked.done():
                    asked.set_result(message)
            case _:
                # A beat: the supervisor has noted it.
                return

    def went_down(self, name: str, error: OuzelError) -> None:
        """A stage is gone, and with it a part of every open utterance."""
        for stream in list(self.streams.values()):
            stream.act(stream.request.fail(error))

    def output(self, reader: RingReader) -> None:
        """Read sound from this ring from now on."""
        self._leave_ring()
        self._reader = reader
        asyncio.get_running_loop().add_reader(reader.fileno(), self._drain)
        self._drain()

    def close(self) -> None:
        """End what is open, and leave the ring."""
        for stream in list(self.streams.values()):
            stream.abort()
        self._leave_ring()

    def _leave_ring(self) -> None:
        if self._reader is not None:
            asyncio.get_running_loop().remove_reader(self._reader.fileno())
            self._reader.close()
            self._reader = None

    def _drain(self) -> None:
        while self._reader is not None and (record := self._reader.get()) is not None:
            self._hop_ns = time.monotonic_ns() - record.put_ns
            self._stats.record(Phase.HOP, self._hop_ns)
            with self._stats.phase(Phase.DISPATCH):
                if (stream := self.streams.get(record.slot)) is not None:
                    chunk = unpack_samples(record)
                    self._fitting.heard(chunk)
                    stream.act(stream.request.chunk(chunk))
            self._progressed(stream)

    def _progressed(self, stream: Stream | None) -> None:
        """Those that are still queued move up with whatever moves before them."""
        for other in self.streams.values():
            if other is stream or other.request.state is State.QUEUED:
                other.deadline.progress()

    def _carry_out(self, stream: Stream, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Speak() | Text() | Credit():
                    self._send(self._names[0], command)
                case Abort():
                    for name in self._names:
                        self._send(name, command)
                case Deliver():
                    stream.deliver(command, self._hop_ns)
                case End():
                    del self.streams[stream.request.slot]
                    self._slots.give_back(stream.request.slot)
                    stream.end(command)

    def _send(self, name: str, message: ToStage) -> None:
        assert self.stages is not None
        self.stages.send(name, message)
