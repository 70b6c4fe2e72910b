"""One request of text as a pure state machine: events in, commands out.

It is one turn of the language stage under one epoch. Whatever happens, and in whatever order, exactly one `End` comes
out, and nothing after it.
"""

from __future__ import annotations

from enum import Enum, auto

from ouzel.errors import EngineError, OuzelError
from ouzel.orchestrator.request import End
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, TextDelta, Usage
from ouzel.stages.messages import Abort, Generate

__all__ = ["Answer", "AnswerCommand", "AnswerState"]


class AnswerState(Enum):
    """Where a request is; DONE is final."""

    NEW = auto()  # nobody knows of it
    QUEUED = auto()  # it was sent, and nothing of its answer has come
    WRITING = auto()
    DONE = auto()


#: A TextDelta is text for the consumer.
AnswerCommand = Generate | Abort | TextDelta | End


class Answer:
    """Owns a slot until it ends."""

    def __init__(self, request: LanguageRequest) -> None:
        """:param request: with the slot and the epoch that it is to have"""
        self.request = request
        self.state = AnswerState.NEW
        #: of the whole request; None until its last delta
        self.usage: Usage | None = None
        self._sequence = 0
        self._finishes: dict[int, FinishReason] = {}

    def begin(self) -> list[AnswerCommand]:
        """Send it off."""
        if self.state is not AnswerState.NEW:
            return []
        self.state = AnswerState.QUEUED
        return [Generate(self.request)]

    def delta(self, delta: TextDelta) -> list[AnswerCommand]:
        """Text from the stage; what is late for an old epoch is dropped."""
        if not self._is_open or delta.epoch != self.request.epoch:
            return []
        if delta.finish in (FinishReason.ERROR, FinishReason.CANCELLED):
            fault = delta.fault or EngineError("the language stage cancelled what nobody had aborted")
            return self._end(FinishReason.ERROR, fault, there=not delta.last)
        if disorder := self._disorder(delta):
            return self.fail(EngineError(f"slot {delta.slot}: {disorder}"))
        self._sequence += 1
        self.state = AnswerState.WRITING
        if delta.finish is not None:
            self._finishes[delta.index] = delta.finish
        if not delta.last:
            return [delta]
        self.usage = delta.usage
        return [delta, *self._end(self._finishes[0], there=False)]

    def refused(self, epoch: int, fault: OuzelError) -> list[AnswerCommand]:
        """The stage didn't take it, or lost it: nothing of it is left there."""
        return self._end(FinishReason.ERROR, fault, there=False) if epoch == self.request.epoch else []

    def abort(self) -> list[AnswerCommand]:
        """The consumer wants no more."""
        return self._end(FinishReason.CANCELLED)

    def fail(self, fault: OuzelError) -> list[AnswerCommand]:
        """It can't go on: the stage died, a deadline passed."""
        return self._end(FinishReason.ERROR, fault)

    @property
    def _is_open(self) -> bool:
        return self.state in (AnswerState.QUEUED, AnswerState.WRITING)

    def _disorder(self, delta: TextDelta) -> str:
        """What is wrong with the place of a delta in its request; empty where nothing is."""
        if delta.sequence != self._sequence:
            return f"delta {delta.sequence} came where {self._sequence} was due"
        if delta.index not in range(self.request.n):
            return f"a delta came for choice {delta.index} of {self.request.n}"
        if delta.index in self._finishes:
            return f"a delta came for choice {delta.index}, which had ended"
        if delta.last and delta.finish is None:
            return f"choice {delta.index} ended without saying how"
        ended = len(self._finishes) + (delta.finish is not None)
        if delta.last and ended < self.request.n:
            return f"the request ended with {ended} of {self.request.n} choices"
        return ""

    def _end(self, finish: FinishReason, fault: OuzelError | None = None, *, there: bool = True) -> list[AnswerCommand]:
        """:param there: whether something of it may be left in the stage"""
        if self.state is AnswerState.DONE:
            return []
        dropped: list[AnswerCommand] = []
        if there and self._is_open:
            dropped.append(Abort(self.request.slot, self.request.epoch))
        self.state = AnswerState.DONE
        return [*dropped, End(finish, fault)]
