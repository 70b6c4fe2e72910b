"""The talker's engine core: text in, chunks of codec frames out.

A step gives each stream that may speak one frame: the backbone reads the frame before, codebook 0 is sampled from its
logits, the code predictor adds the rest, and the step returns. So a frame is handed on before the backbone reads it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ouzel.engines.phase_times import PhaseTimes
from ouzel.engines.talker.intake import Intake
from ouzel.engines.talker.pace import Pace
from ouzel.engines.talker.stream import State, Stream
from ouzel.errors import EngineError, OuzelError
from ouzel.models.qwen3_tts.checkpoint import TalkerSide
from ouzel.models.qwen3_tts.kv_cache import KVCache
from ouzel.scheduling import Admission, ChunkSchedule, Runway, may_prefill
from ouzel.stages.core import CodesChunk, FinishReason, Grant, TalkerItem, TalkerRequest
from ouzel.stats.phases import Phase
from ouzel.stats.steps import NULL, Stats

__all__ = ["PrefillPolicy", "TalkerCore"]

NS = 1e-9


@dataclass(frozen=True, slots=True)
class PrefillPolicy:
    """How much of a prompt is read in a step, and when that is held back for those who speak."""

    rows: int
    margin_s: float
    max_hold_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What one step does."""

    speaking: list[Stream]
    prefill: Stream | None

    @property
    def involved(self) -> list[Stream]:
        if self.prefill is None or self.prefill in self.speaking:
            return self.speaking
        return [*self.speaking, self.prefill]


class TalkerCore:
    """Speaks the admitted requests, all of them in one batch."""

    def __init__(
        self,
        side: TalkerSide,
        *,
        admission: Admission[tuple[int, int]],
        schedule: ChunkSchedule,
        prefill: PrefillPolicy,
        stats: Stats = NULL,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """:param schedule: of requests that ask for no other"""
        self._talker = side.talker
        self._predictor = side.predictor
        self._config = side.config.talker
        self._intake = Intake(side, schedule)
        self._admission = admission
        self._policy = prefill
        self.stats = stats
        self._clock = clock
        self._times = PhaseTimes(stats, clock)
        self._pace = Pace()
        self._streams: dict[int, Stream] = {}
        self._ended: list[Stream] = []

    @property
    def has_work(self) -> bool:
        """Whether a frame, a prompt or an ending is due; streams that wait for text, credits or memory aren't work."""
        return bool(self._ended) or any(
            stream.may_speak or stream.state is State.PREFILL for stream in self._streams.values()
        )

    @torch.inference_mode()
    def add(self, request: TalkerRequest) -> None:
        """Queue a request.

        :raises RequestError: when text, voice, language or sampling don't suit the checkpoint, or it can never fit.
        :raises BusyError: when the queue is at its bound.
        :raises EngineError: when the slot still belongs to another stream.
        """
        if request.slot in self._streams:
            raise EngineError(f"slot {request.slot} still belongs to epoch {self._streams[request.slot].request.epoch}")
        with self._times.phase(Phase.TEXT):
            stream = self._intake.stream(request)
        stream.spent(self._times.take())
        stream.since_ns = self._clock()
        self._admission.submit(_key(stream), stream.most_tokens)
        self._streams[request.slot] = stream
        self._admit()

    @torch.inference_mode()
    def feed(self, slot: int, item: TalkerItem) -> None:
        stream = self._streams.get(slot)
        if stream is None or stream.request.epoch != item.epoch:
            return
        if isinstance(item, Grant):
            stream.credits.grant(item.frames)
            stream.heard_until = item.heard_until
            return
        try:
            with self._times.phase(Phase.TEXT):
                stream.text.push(item.text, last=item.last)
            stream.max_frames = min(stream.max_frames, item.max_frames or stream.max_frames)
        except OuzelError as fault:
            self._end(stream, FinishReason.ERROR, fault)
        stream.spent(self._times.take())
        stream.watch_text(self._clock())

    def abort(self, slot: int) -> None:
        if slot in self._streams:
            self._end(self._streams[slot], FinishReason.CANCELLED)

    @torch.inference_mode()
    def step(self) -> list[CodesChunk]:
        with self.stats.step():
            plan = self._schedule()
            self._run(plan)
            return self._emit(plan)

    def close(self) -> None:
        for slot in list(self._streams):
            self.abort(slot)
        self._ended.clear()

    def _schedule(self) -> Plan:
        with self._times.phase(Phase.SCHEDULE):
            speaking = [stream for stream in self._streams.values() if stream.may_speak]
            return Plan(speaking, self._next_prompt(speaking))

    def _next_prompt(self, speaking: Sequence[Stream]) -> Stream | None:
        """The oldest prompt that isn't read, unless reading a piece of it would leave a listener without audio."""
        stream = next((one for one in self._streams.values() if one.state is State.PREFILL), None)
        if stream is None:
            return None
        now = self._clock() * NS
        piece_s = min(len(stream.rows), self._policy.rows) * self._pace.row_s
        runways = [
            Runway(one.heard_until - now, one.frames_to_chunk * self._pace.step_s)
            for one in speaking
            if one.heard_until is not None
        ]
        may = may_prefill(
            runways,
            piece_s,
            margin_s=self._policy.margin_s,
            waited_s=now - stream.since_ns * NS,
            max_hold_s=self._policy.max_hold_s,
        )
        return stream if may else None

    def _run(self, plan: Plan) -> None:
        start = self._clock()
        if reading := [stream for stream in plan.speaking if stream.hidden is None]:
            self._read_frames(reading)
        if plan.prefill is not None:
            start += self._read_prompt(plan.prefill)
            if plan.prefill.hidden is not None and plan.prefill.may_speak:
                plan.speaking.append(plan.prefill)
        if going := self._sample(plan.speaking):
            self._predict(*going)
            self._pace.stepped((self._clock() - start) * NS)

    def _read_frames(self, streams: Sequence[Stream]) -> None:
        """The backbone reads the last frame of each stream, and its next text row."""
        with self._times.phase(Phase.BACKBONE):
            rows = torch.stack([stream.text.pop() for stream in streams])
            spoken = [(place, stream.frame) for place, stream in enumerate(streams) if stream.frame is not None]
            if spoken:
                frames = torch.stack([frame for _, frame in spoken])
                rows[[place for place, _ in spoken]] += self._predictor.embed_sum(frames, self._talker)
            caches = [stream.cache for stream in streams if stream.cache is not None]
            hidden = self._talker.decode(rows, caches)
            for stream, row in zip(streams, hidden, strict=True):
                stream.hidden = row

    def _read_prompt(self, stream: Stream) -> int:
        """The backbone reads the next piece of a prompt; how long it took."""
        assert stream.cache is not None
        start = self._clock()
        piece, stream.rows = stream.rows[: self._policy.rows], stream.rows[self._policy.rows :]
        with self._times.phase(Phase.PREFILL):
            hidden = self._talker.prefill(piece, stream.cache)
        if not len(stream.rows):
            stream.prefilled(hidden)
        took = self._clock() - start
        self._pace.prefilled(len(piece), took * NS)
        return took

    def _sample(self, streams: Sequence[Stream]) -> tuple[list[Stream], Tensor, Tensor] | None:
        """Codebook 0 of each stream; those that go on, with their hidden states and codes."""
        # -> streams of length B, hidden [B, H], c0 [B]
        if not streams:
            return None
        hidden = torch.stack([stream.hidden for stream in streams if stream.hidden is not None])
        codes: dict[int, int] = {}
        with self._times.phase(Phase.SAMPLE):
            for place, logits in enumerate(self._talker.logits(hidden)):
                code = self._draw(streams[place], streams[place].sampler.sample_c0, logits)
                if code is not None:
                    codes[place] = code
        going = [place for place, code in codes.items() if code != self._config.ids.eos]
        for place in codes.keys() - set(going):
            self._end(streams[place], FinishReason.STOP)
        if not going:
            return None
        return [streams[place] for place in going], hidden[going], torch.tensor([codes[place] for place in going])

    def _predict(self, streams: Sequence[Stream], hidden: Tensor, c0: Tensor) -> None:
        """The other codebooks, which completes the frames."""
        # hidden: [B, H]; c0: [B] int64

        def sample(logits: Tensor, group: int) -> Tensor:
            # logits: [B, V] -> [B]
            drawn = (self._draw(one, one.sampler.sample_group, row) for one, row in zip(streams, logits, strict=True))
            return torch.tensor([code or 0 for code in drawn])

        with self._times.phase(Phase.PREDICTOR):
            frames = self._predictor.predict(hidden, c0, sample, self._talker)
        for stream, frame in zip(streams, frames, strict=True):
            if stream.finish is not None:
                continue
            stream.made(frame)
            self.stats.made(1)
            if stream.credits.made >= stream.max_frames:
                self._end(stream, FinishReason.LENGTH)

    def _draw(self, stream: Stream, sample: Callable[[Tensor], int], logits: Tensor) -> int | None:
        """A code; None where the stream's logits are no numbers, which ends it and nobody else."""
        # logits: [V]
        if stream.finish is not None:
            return None
        try:
            return sample(logits)
        except EngineError as fault:
            self._end(stream, FinishReason.ERROR, fault)
            return None

    def _end(self, stream: Stream, reason: FinishReason, fault: OuzelError | None = None) -> None:
        """Free the slot and the memory; the last chunk leaves with this step or the next."""
        stream.end(reason, fault)
        self._ended.append(stream)
        del self._streams[stream.request.slot]
        self._admission.release(_key(stream))
        self._admit()

    def _admit(self) -> None:
        """Start those whose whole reservation fits now."""
        for slot, _ in self._admission.admit():
            stream, now = self._streams[slot], self._clock()
            self.stats.record(Phase.QUEUE, now - stream.since_ns)
            stream.admit(KVCache(self._config, stream.most_tokens, stream.rows.dtype), now)

    def _emit(self, plan: Plan) -> list[CodesChunk]:
        with self._times.phase(Phase.UPDATE):
            now = self._clock()
            ended, self._ended = self._ended, []
            took = self._times.take()
            for stream in plan.involved:
                stream.spent(took)
                stream.watch_text(now)
            going = [stream for stream in plan.speaking if stream.finish is None]
            chunks = (stream.chunk(self._config.num_code_groups, now) for stream in (*going, *ended))
            return [chunk for chunk in chunks if chunk is not None]


def _key(stream: Stream) -> tuple[int, int]:
    return stream.request.slot, stream.request.epoch
