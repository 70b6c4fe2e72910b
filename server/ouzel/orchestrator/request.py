"""One request as a pure state machine: events in, commands out.

A request is a text in sentences and one stream of sound. Each sentence is an utterance of the stages under an epoch of
its own; the next one is sent when the last sound of the one before has come. A sentence may begin before its end is
known: then its pieces follow it into the stages. Whatever happens, and in whatever order, exactly one `End` comes out,
and nothing after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto

from ouzel.config.schema import LimitsConfig
from ouzel.errors import EngineError, OuzelError, RequestError
from ouzel.scheduling import frame_limit, granted_frames
from ouzel.stages.core import FinishReason, Grant, SamplesChunk, SamplingWishes, TalkerRequest, TextPiece
from ouzel.stages.messages import Abort, Credit, Speak, Text
from ouzel.text.sentences import LONGEST_PIECE

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
    #: of the whole text; each sentence also keeps the limit that follows from its length
    max_frames: int | None = None

    def __post_init__(self) -> None:
        if self.max_frames is not None and self.max_frames < 1:
            raise RequestError(f"max_frames {self.max_frames}: give at least 1", param="max_frames")


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


Command = Speak | Text | Credit | Abort | Deliver | End


@dataclass(slots=True)
class _Sentence:
    text: str
    #: nothing is added to it any more
    whole: bool


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
        self._sentences: deque[_Sentence] = deque()
        self._growing: _Sentence | None = None  # the one in the stages, while its end isn't known
        self._text_over = False
        self._begun = 0
        self._sequence = 0
        self._base = 0  # frames of the utterances before this one
        self._finish = FinishReason.STOP

    @property
    def waits_for_text(self) -> bool:
        """Whether more text may have to come before it can go on."""
        return self.state is State.WAITING or self._growing is not None

    @property
    def waits_for_consumer(self) -> bool:
        """Whether sound must be taken before it can surely go on: the credits that are left may not fill a chunk."""
        ahead = self.received - self.drained
        return 0 < ahead and self._limits.buffer_frames - ahead < self._largest_chunk

    def text(self, piece: str, *, whole: bool = True) -> list[Command]:
        """More text, ready to be spoken: a sentence, its end, or where it isn't `whole`, words of it."""
        if self.state is State.DONE:
            return []
        if self._growing is not None:
            return self._grow(self._growing, piece, whole)
        if self._sentences and not self._sentences[-1].whole:
            self._sentences[-1].text += piece
            self._sentences[-1].whole = whole
        elif piece.strip():
            self._sentences.append(_Sentence(piece, whole))
        return self._go_on()

    def text_over(self) -> list[Command]:
        """No more text comes."""
        ended = self.text("")
        self._text_over = True
        return [*ended, *self._go_on()]

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
        if self._left == 0 and (self._sentences or self._finish is FinishReason.LENGTH):
            return self._end(FinishReason.LENGTH)
        if self._sentences:
            return self._begin(self._sentences.popleft())
        if self._text_over:
            return self._end(self._finish)
        self.state = State.WAITING
        return []

    def _begin(self, sentence: _Sentence) -> list[Command]:
        wishes, sampling = self._wishes, self._wishes.sampling
        if sampling.seed is not None:
            # Else two equal sentences of a text would sound exactly alike.
            sampling = replace(sampling, seed=sampling.seed + self._begun)
        self.epoch = self._next_epoch()
        self.state = State.SPEAKING if self.received else State.QUEUED
        self._begun += 1
        self._sequence = 0
        self._base = self.received
        self._growing = None if sentence.whole else sentence
        request = TalkerRequest(
            slot=self.slot,
            epoch=self.epoch,
            text=sentence.text if sentence.whole else None,
            max_frames=self._limit(len(sentence.text) if sentence.whole else LONGEST_PIECE),
            granted_frames=self._granted(),
            language=wishes.language,
            speaker=wishes.speaker,
            instruct=wishes.instruct,
            streaming_layout=wishes.streaming_layout,
            sampling=sampling,
            chunk_frames=wishes.chunk_frames,
        )
        if sentence.whole:
            return [Speak(request)]
        return [Speak(request), Text(self.slot, TextPiece(self.epoch, sentence.text))]

    def _grow(self, sentence: _Sentence, piece: str, whole: bool) -> list[Command]:
        """More of the sentence that the stages are speaking."""
        assert self.epoch is not None
        sentence.text += piece
        if not whole:
            return [Text(self.slot, TextPiece(self.epoch, piece))]
        self._growing = None
        return [Text(self.slot, TextPiece(self.epoch, piece, last=True, max_frames=self._limit(len(sentence.text))))]

    def _limit(self, letters: int) -> int:
        """Frames that the utterance in the stages may have."""
        limits = self._limits
        own = frame_limit(
            letters,
            letters_per_second=limits.letters_per_second,
            factor=limits.frame_limit_factor,
            extra_seconds=limits.frame_limit_extra_s,
        )
        return own if self._wishes.max_frames is None else min(own, self._wishes.max_frames - self._base)

    @property
    def _left(self) -> int | None:
        """Frames that the request may still have; None where it is bounded by its text alone."""
        return None if self._wishes.max_frames is None else self._wishes.max_frames - self.received

    def _granted(self) -> int:
        """Frames that this utterance may have in all, so that the buffer is never overrun."""
        return granted_frames(self.drained, self._limits.buffer_frames) - self._base

    def _utterance_over(self, chunk: SamplesChunk) -> list[Command]:
        # What still comes of a sentence that ended before its text is a sentence of its own.
        self.epoch = self._growing = None
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
        self.epoch = self._growing = None
        return [*dropped, End(finish, fault)]
