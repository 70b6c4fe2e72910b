"""The code2wav engine core: chunks of codec frames in, sound out, one chunk of one stream at a time."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ouzel.engines.phase_times import PhaseTimes
from ouzel.errors import EngineError, OuzelError
from ouzel.scheduling import PlaybackCursor
from ouzel.stages.core import CodesChunk, DecodeRequest, FinishReason, SamplesChunk
from ouzel.stats.phases import Phase
from ouzel.stats.steps import NULL, Stats

__all__ = ["Code2WavCore", "Decoder"]

NS = 1e-9
NO_SAMPLES = np.empty(0, np.float32)

DecoderState = TypeVar("DecoderState")


class Decoder(Protocol[DecoderState]):
    """A codec decoder whose streaming state is passed in and out."""

    def init_state(self) -> DecoderState:
        """A stream that has heard nothing yet."""

    def step(self, codes: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """The sound of the next frames, codes int64 [1, G, T] -> float32 [1, samples] in -1..1, and the next state."""


@dataclass(slots=True, eq=False)
class Stream:
    """What the core keeps of one stream."""

    request: DecodeRequest
    state: object
    #: chunks, and when each came
    queue: deque[tuple[CodesChunk, int]] = field(default_factory=deque)
    arrived: int = 0
    sent: int = 0
    #: How far its listener has audio, if all of it is played as soon as it is made.
    cursor: PlaybackCursor = field(default_factory=PlaybackCursor)

    @property
    def deadline(self) -> float:
        """When its next chunk is due, in seconds: at the end of its audio; at once for a stream that has none yet."""
        heard_until = self.cursor.heard_until
        return self.queue[0][1] * NS if heard_until is None else heard_until


class Code2WavCore:
    """Decodes the streams that it was told of, earliest deadline first."""

    def __init__(
        self,
        decoder: Decoder[DecoderState],
        *,
        max_streams: int = 1,
        stats: Stats = NULL,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """:param max_streams: how many of them get a chunk decoded in one step"""
        self._decoder: Decoder[object] = decoder  # type: ignore[assignment]  # states go back to where they came from
        self._max_streams = max_streams
        self.stats = stats
        self._clock = clock
        self._times = PhaseTimes(stats, clock)
        self._streams: dict[int, Stream] = {}
        self._outputs: list[SamplesChunk] = []

    @property
    def has_work(self) -> bool:
        return bool(self._outputs) or any(stream.queue for stream in self._streams.values())

    def add(self, request: DecodeRequest) -> None:
        """Expect a stream's chunks.

        :raises EngineError: when the slot still belongs to another stream.
        """
        if request.slot in self._streams:
            raise EngineError(f"slot {request.slot} still belongs to epoch {self._streams[request.slot].request.epoch}")
        self._streams[request.slot] = Stream(request, self._decoder.init_state())

    def feed(self, slot: int, item: CodesChunk) -> None:
        stream = self._streams.get(slot)
        if stream is None or stream.request.epoch != item.epoch:
            return
        if item.sequence != stream.arrived:
            fault = EngineError(f"slot {slot}: chunk {item.sequence} of codes came where {stream.arrived} was due")
            self._end(stream, FinishReason.ERROR, fault)
            return
        stream.arrived += 1
        now = self._clock()
        stream.queue.append((item, now))
        self.stats.record(Phase.HOP, now - item.put_ns)

    def abort(self, slot: int) -> None:
        if slot in self._streams:
            self._end(self._streams[slot], FinishReason.CANCELLED)

    @torch.inference_mode()
    def step(self) -> list[SamplesChunk]:
        with self.stats.step():
            due = self._schedule()
            self._run(due)
            return self._emit()

    def close(self) -> None:
        self._streams.clear()
        self._outputs.clear()

    def _schedule(self) -> list[Stream]:
        with self._times.phase(Phase.SCHEDULE):
            waiting = [stream for stream in self._streams.values() if stream.queue]
            return sorted(waiting, key=lambda stream: stream.deadline)[: self._max_streams]

    def _run(self, due: list[Stream]) -> None:
        for stream in due:
            codes, came = stream.queue.popleft()
            queued = self._clock() - came
            try:
                with self._times.phase(Phase.CODEC):
                    samples = self._decode(stream, codes)
            except EngineError as fault:
                self._times.take()
                self._end(stream, FinishReason.ERROR, fault)
                continue
            phases = Counter(codes.phases) + Counter(self._times.take())
            phases += Counter({Phase.HOP: came - codes.put_ns, Phase.QUEUE: queued})
            self._send(stream, samples, codes, phases)

    def _decode(self, stream: Stream, chunk: CodesChunk) -> NDArray[np.float32]:
        """:raises EngineError: when the codes are none of this codec, or make no sound"""
        # -> [frames * samples_per_frame]
        if not chunk.frames:
            return NO_SAMPLES
        codes = torch.from_numpy(chunk.codes.astype(np.int64)).T[None]
        samples, stream.state = self._decoder.step(codes, stream.state)
        if not samples.isfinite().all():
            raise EngineError(f"chunk {chunk.sequence} of codes: a sample is not a finite number")
        return samples[0].numpy()

    def _send(self, stream: Stream, samples: NDArray[np.float32], codes: CodesChunk, phases: dict[Phase, int]) -> None:
        self._outputs.append(
            SamplesChunk(
                slot=codes.slot,
                epoch=codes.epoch,
                sequence=stream.sent,
                samples=samples,
                frames=codes.frames,
                finish=codes.finish,
                fault=codes.fault,
                phases=phases,
                starved_ns=codes.starved_ns,
                put_ns=self._clock(),
            )
        )
        stream.sent += 1
        stream.cursor.deliver(codes.frames, self._clock() * NS)
        self.stats.made(codes.frames)
        if codes.last:
            del self._streams[codes.slot]

    def _end(self, stream: Stream, reason: FinishReason, fault: OuzelError | None = None) -> None:
        """Free the slot; the last chunk leaves with this step or the next."""
        slot, epoch = stream.request.slot, stream.request.epoch
        nothing = np.empty((0, 0), np.uint16)
        last = CodesChunk(slot=slot, epoch=epoch, sequence=stream.arrived, codes=nothing, finish=reason, fault=fault)
        self._send(stream, NO_SAMPLES, last, {})

    def _emit(self) -> list[SamplesChunk]:
        with self._times.phase(Phase.UPDATE):
            made, self._outputs = self._outputs, []
            return made
