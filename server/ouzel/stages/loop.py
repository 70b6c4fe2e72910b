"""A stage's main loop: the only caller of its engine core, in one thread.

It sleeps in one `poll` over the control channel and the rings, with the next beat as its time-out: it neither spins nor
oversleeps. A full ring holds the core back, never the control channel, so an abort is served all the same. Text has no
ring: its deltas leave over the control channel, and hold the core back while that is full.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from ouzel.errors import EngineError, OuzelError
from ouzel.stages.channel import Channel, Received
from ouzel.stages.chunk_records import pack, unpack_codes
from ouzel.stages.core import CodesChunk, DecodeRequest, EngineCore, SamplesChunk
from ouzel.stages.language import TextDelta
from ouzel.stages.messages import (
    Abort,
    AskStats,
    Attach,
    Beat,
    Credit,
    Fault,
    Generate,
    Generated,
    Refused,
    ResetStats,
    Speak,
    StatsReply,
    Stop,
    Text,
)
from ouzel.stages.streams import NewestEpochs
from ouzel.stats.steps import StepStats
from ouzel.transfer import LAST, RingReader, RingWriter

__all__ = ["BEAT_S", "StageLoop"]

#: How often a stage says that it is alive.
BEAT_S = 1.0

Chunk = CodesChunk | SamplesChunk


class StageLoop:
    """Runs an engine core until the server says stop, or is gone."""

    def __init__(
        self,
        core: EngineCore[object, object, Chunk | TextDelta],
        channel: Channel,
        stats: Sequence[StepStats] = (),
        counters: Callable[[], Mapping[str, int]] = dict,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        :param stats: of the cores of this stage, where they are on
        :param counters: what each beat tells beside the steps
        """
        self._core = core
        self._channel = channel
        self._stats = stats
        self._counters = counters
        self._clock = clock
        self._input: RingReader | None = None
        self._output: RingWriter | None = None
        self._drained = False  # whether the input's descriptor would tell of the next record
        self._blocked = False
        self._outbox: deque[tuple[Chunk, bytes]] = deque()
        self._streams = NewestEpochs()
        self._running: dict[int, int] = {}  # slot → epoch
        self._steps = 0
        self._beat_at = clock()
        self._stopping = False

    def run(self) -> None:
        """Until `Stop`, or the channel's other end is gone."""
        while not self._stopping:
            self._beat()
            self._serve()
            self._take_input()
            self._hand_on()
            if not self._outbox and not self._channel.wants_room and self._core.has_work:
                self._step()
            else:
                self._sleep()
        self._core.close()
        for end in (self._input, self._output):
            if end is not None:
                end.close()

    def _step(self) -> None:
        for made in self._core.step():
            if isinstance(made, TextDelta):
                self._channel.send(Generated(made))
            else:
                self._outbox.append((made, pack(made)))
            if made.last and self._running.get(made.slot) == made.epoch:
                del self._running[made.slot]
        self._steps += 1
        self._hand_on()

    def _hand_on(self) -> None:
        """Write what was made, as far as the ring has room; without a reader it has no destination."""
        self._blocked = False
        while self._outbox and not self._blocked:
            chunk, payload = self._outbox[0]
            self._blocked = not self._put(chunk, payload)
            if not self._blocked:
                self._outbox.popleft()

    def _put(self, chunk: Chunk, payload: bytes) -> bool:
        if self._output is None:
            return True
        try:
            flags = LAST if chunk.last else 0
            return self._output.put(chunk.slot, chunk.epoch, chunk.sequence, payload, flags=flags)
        except EngineError:
            if len(payload) > self._output.max_payload:
                raise
            # The reader took its leave, and its requests ended with it; the next reader comes with a ring of its own.
            self._output.close()
            self._output = None
            return True

    def _take_input(self) -> None:
        self._drained = False
        while self._input is not None:
            record = self._input.get()
            if record is None:
                self._drained = True
                return
            chunk = unpack_codes(record)
            if self._streams.begins(chunk.slot, chunk.epoch, chunk.sequence):
                self._add(chunk.slot, chunk.epoch, DecodeRequest(chunk.slot, chunk.epoch))
            if self._running.get(chunk.slot) == chunk.epoch:
                self._core.feed(chunk.slot, chunk)

    def _serve(self) -> None:
        self._channel.flush()
        while (received := self._channel.receive()) is not None:
            self._obey(received)
        self._stopping |= self._channel.ended

    def _obey(self, received: Received) -> None:
        match received.message:
            case Speak(request) | Generate(request):
                self._add(request.slot, request.epoch, request)
            case Text(slot, item) | Credit(slot, item):
                self._core.feed(slot, item)
            case Abort(slot, epoch):
                self._streams.close(slot, epoch)
                if self._running.get(slot) == epoch:
                    self._core.abort(slot)
            case Attach(end):
                self._attach(end, received.descriptors)
            case AskStats():
                self._channel.send(StatsReply(tuple(one.snapshot().to_json() for one in self._stats)))
            case ResetStats():
                for one in self._stats:
                    one.reset()
            case Stop():
                self._stopping = True
            case other:
                raise EngineError(f"a stage was sent {type(other).__name__}, which only stages send")

    def _add(self, slot: int, epoch: int, request: object) -> None:
        # The server uses a slot again as soon as it has given its utterance up, so ours may not have ended yet.
        self._core.abort(slot)
        try:
            self._core.add(request)
        except OuzelError as error:
            self._channel.send(Refused(slot, epoch, Fault.of(error)))
            return
        self._running[slot] = epoch

    def _attach(self, end: str, descriptors: Sequence[int]) -> None:
        if end == "input":
            if self._input is not None:
                self._input.close()
            self._input = RingReader.attach(descriptors)
        else:
            if self._output is not None:
                self._output.close()
            self._output = RingWriter.attach(descriptors)

    def _beat(self) -> None:
        if (now := self._clock()) >= self._beat_at:
            self._channel.send(Beat(self._steps, self._counters()))
            self._beat_at = now + BEAT_S

    def _sleep(self) -> None:
        if self._stopping:
            return
        poller = select.poll()
        poller.register(self._channel, select.POLLIN | (select.POLLOUT if self._channel.wants_room else 0))
        if self._drained and self._input is not None:
            poller.register(self._input, select.POLLIN)
        if self._blocked and self._output is not None:
            poller.register(self._output, select.POLLIN)
        poller.poll(max(0.0, self._beat_at - self._clock()) * 1000)
