"""One request as a pure state machine: events in, commands out.

A request is a text in sentences and one stream of sound. Each sentence is an utterance of the stages under an epoch of
its own; the next one is sent when the last sound of the one before has come. Whatever happens, and in whatever order,
exactly one `End` comes out, and nothing after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto

from ouzel.config.schema import LimitsConfig
from ouzel.errors import EngineError, OuzelError
from ouzel.scheduling import frame_limit, granted_frames
from ouzel.stages.core import FinishReason, Grant, SamplesChunk, SamplingWishes, TalkerRequest
from ouzel.stages.messages import Abort, Credit, Speak

__all__ = ["Command", "Deliver", "End", "Request", "State", "Wishes"]


class State(Enum):
    """Where a request is; DONE is final."""

    WAITING = auto()  # for its text
    QUEUED = auto()  # an utterance is in the stages, and no sound of the request has come
    SPEAKING = auto()  # an utterance is in the stages
    DONE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How a text is to be spoken; None is the voice's own."""

    language: str | None = None
    speaker: str | None = None
    instruct: str | None = None
    sampling: SamplingWishes = SamplingWishes()
    streaming_layout: bool = False
    chunk_frames: tuple[int, ...] | None = None
    #: frames of a sentence, in place of the limit that follows from its length
    max_frames: int | None = None


@dataclass(frozen=True, slots=True)
class Deliver:
    """Sound for the consumer."""

    chunk: SamplesChunk
    #: place of its sentence
    sentence: int


@dataclass(frozen=True, slots=True)
class End:
    """The one end of a request."""

    finish: FinishReason
    #: what went wrong, where `finish` is `error`
    fault: OuzelError | None = None


Command = Speak | Credit | Abort | Deliver | End


class Request:
    """Owns a slot until it ends."""

    def __init__(
        self, slot: int, wishes: Wishes, limits: LimitsConfig, largest_chunk: int, next_epoch: Callable[[], int]
    ) -> None:
        """
        :param largest_chunk: frames that the talker may hold back until a chunk is full
        :param next_epoch: gives each utterance of the server a number of its own, always a higher one
        """
        self.slot = slot
        self.state = State.WAITING
        #: frames of sound that have come, and that the consumer has taken
        self.received = 0
        self.drained = 0
        #: epoch of the utterance in the stages
        self.epoch: int | None = None
        self._wishes = wishes
        self._limits = limits
        self._largest_chunk = largest_chunk
        self._next_epoch = next_epoch
        self._sentences: deque[str] = deque()
        self._text_over = False
        self._begun = 0
        self._sequence = 0
        self._base = 0  # frames of the utterances before this one
        self._finish = FinishReason.STOP

    @property
    def waits_for_consumer(self) -> bool:
        """Whether sound must be taken before it can surely go on: the credits that are left may not fill a chunk."""
        ahead = self.received - self.drained
        return 0 < ahead and self._limits.buffer_frames - ahead < self._largest_chunk

    def sentence(self, text: str) -> list[Command]:
        """More text, ready to be spoken."""
        if self.state is State.DONE:
            return []
        self._sentences.append(text)
        return self._go_on()

    def text_over(self) -> list[Command]:
        """No more text comes."""
        self._text_over = True
        return self._go_on()

    def chunk(self, chunk: SamplesChunk) -> list[Command]:
        """Sound from the stages; what is late for an old epoch is dropped."""
        if self.epoch is None or chunk.epoch != self.epoch:
            return []
        if chunk.sequence != self._sequence:
            fault = f"slot {self.slot}: chunk {chunk.sequence} of sound came where {self._sequence} was due"
            return self.fail(EngineError(fault))
        self._sequence += 1
        self.state = State.SPEAKING
        self.received += chunk.frames
        delivered: list[Command] = [Deliver(chunk, self._begun - 1)] if chunk.frames else []
        return [*delivered, *self._utterance_over(chunk)] if chunk.finish is not None else delivered

    def refused(self, epoch: int, fault: OuzelError) -> list[Command]:
        """The stages didn't take an utterance."""
        if epoch != self.epoch:
            return []
        self.epoch = None
        return self._end(FinishReason.ERROR, fault)

    def taken(self, frames: int, heard_until: float | None) -> list[Command]:
        """The consumer has taken sound, and has audio until `heard_until`."""
        if self.state is State.DONE:
            return []
        self.drained += frames
        if self.epoch is None:
            return []
        return [Credit(self.slot, Grant(self.epoch, self._granted(), heard_until))]

    def abort(self) -> list[Command]:
        """The consumer wants no more."""
        return self._end(FinishReason.CANCELLED)

    def fail(self, fault: OuzelError) -> list[Command]:
        """It can't go on: a stage died, a deadline passed, its text couldn't be read."""
        return self._end(FinishReason.ERROR, fault)

    def _go_on(self) -> list[Command]:
        if self.state is State.DONE or self.epoch is not None:
            return []
        if self._sentences:
            return [self._begin(self._sentences.popleft())]
        if self._text_over:
            return self._end(self._finish)
        self.state = State.WAITING
        return []

    def _begin(self, text: str) -> Speak:
        wishes, sampling = self._wishes, self._wishes.sampling
        if sampling.seed is not None:
            # Else two equal sentences of a text would sound exactly alike.
            sampling = replace(sampling, seed=sampling.seed + self._begun)
        self.epoch = self._next_epoch()
        self.state = State.SPEAKING if self.received else State.QUEUED
        self._begun += 1
        self._sequence = 0
        self._base = self.received
        request = TalkerRequest(
            slot=self.slot,
            epoch=self.epoch,
            text=text,
            max_frames=frame_limit(
                len(text),
                letters_per_second=self._limits.letters_per_second,
                factor=self._limits.frame_limit_factor,
                extra_seconds=self._limits.frame_limit_extra_s,
                user_cap=wishes.max_frames,
            ),
            granted_frames=self._granted(),
            language=wishes.language,
            speaker=wishes.speaker,
            instruct=wishes.instruct,
            streaming_layout=wishes.streaming_layout,
            sampling=sampling,
            chunk_frames=wishes.chunk_frames,
        )
        return Speak(request)

    def _granted(self) -> int:
        """Frames that this utterance may have in all, so that the buffer is never overrun."""
        return granted_frames(self.drained, self._limits.buffer_frames) - self._base

    def _utterance_over(self, chunk: SamplesChunk) -> list[Command]:
        self.epoch = None
        match chunk.finish:
            case FinishReason.LENGTH:
                self._finish = FinishReason.LENGTH
            case FinishReason.ERROR | FinishReason.CANCELLED:
                fault = EngineError("the stages cancelled what nobody had aborted")
                return self._end(FinishReason.ERROR, chunk.fault or fault)
        return self._go_on()

    def _end(self, finish: FinishReason, fault: OuzelError | None = None) -> list[Command]:
        if self.state is State.DONE:
            return []
        self.state = State.DONE
        self._sentences.clear()
        dropped: list[Command] = [] if self.epoch is None else [Abort(self.slot, self.epoch)]
        self.epoch = None
        return [*dropped, End(finish, fault)]
