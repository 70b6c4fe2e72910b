"""The desk between requests of text and whoever answers them: who gets which delta, and what is at its bound."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from weakref import WeakValueDictionary

from ouzel.errors import EngineError, OuzelError, RequestError
from ouzel.orchestrator.answer import Answer, AnswerCommand
from ouzel.orchestrator.generation import Generation
from ouzel.orchestrator.request import End
from ouzel.orchestrator.slots import Slots
from ouzel.orchestrator.writing import Writing
from ouzel.scheduling import ProgressDeadline
from ouzel.stages.language import LanguageRequest, TextDelta
from ouzel.stages.messages import Abort, Generate

__all__ = ["LanguageDesk"]

#: How often deadlines are looked at.
_TICK_S = 0.25


class LanguageDesk:
    """Knows every open request of text. All of it runs on the event loop."""

    def __init__(
        self,
        slots: Slots,
        deadline_s: float,
        carry_out: Callable[[Generate | Abort], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        :param deadline_s: a request that makes no progress for this long ends with an error
        :param carry_out: takes a request to whoever answers it, or away from there
        """
        self._slots = slots
        self._deadline_s = deadline_s
        self._carry_out = carry_out
        self._clock = clock
        self._open: dict[int, Writing] = {}
        self._named: WeakValueDictionary[str, Writing] = WeakValueDictionary()

    @property
    def taken(self) -> int:
        """Requests that are open."""
        return self._slots.taken

    @property
    def bound(self) -> int:
        """How many may be."""
        return self._slots.bound

    def open(self, request: LanguageRequest, request_id: str) -> Generation:
        """Send a request off.

        :raises BusyError: when the queue is at its bound.
        :raises RequestError: when it asks for no choice.
        :raises OuzelError: what keeps it from being sent.
        """
        if request.n < 1:
            raise RequestError(f"n is {request.n}: give at least 1", param="n")
        answer = Answer(replace(request, slot=self._slots.take(), epoch=self._slots.next_epoch()))
        deadline = ProgressDeadline(self._deadline_s, self._clock)
        writing = Writing(answer, request_id, deadline, self._act)
        self._open[answer.request.slot] = self._named[request_id] = writing
        writing.act(answer.begin())
        if writing.ended is not None and writing.ended.fault is not None:
            raise writing.ended.fault
        return Generation(writing, asyncio.get_running_loop())

    def abort(self, request_id: str) -> bool:
        """End a request with `cancelled`; False when none of this name is open, or all its text was taken."""
        writing = self._named.get(request_id)
        if writing is None or writing.ended is not None:
            return False
        writing.abort()
        return True

    def heard(self, delta: TextDelta) -> None:
        """Text came."""
        if (writing := self._open.get(delta.slot)) is not None:
            writing.deadline.progress()
            writing.act(writing.answer.delta(delta))

    def refused(self, slot: int, epoch: int, fault: OuzelError) -> None:
        """Nothing of a request is left where it was sent."""
        if (writing := self._open.get(slot)) is not None:
            writing.act(writing.answer.refused(epoch, fault))

    def went_down(self, fault: OuzelError) -> None:
        """Whoever answers is gone, and every open request with it."""
        for writing in list(self._open.values()):
            writing.act(writing.answer.fail(fault))

    def progressed(self) -> None:
        """Work was done on the requests together: who shows nothing yet waits for its turn, or for its prompt."""
        for writing in self._open.values():
            writing.deadline.progress()

    def check_deadlines(self) -> None:
        """End the requests that nothing has moved in."""
        for writing in list(self._open.values()):
            if writing.deadline.expired:
                silent = f"no progress for {writing.deadline.idle_s:.1f} s"
                writing.act(writing.answer.fail(EngineError(f"request {writing.id}: {silent}")))

    async def watch(self) -> None:
        """Look at the deadlines until cancelled."""
        while True:
            await asyncio.sleep(_TICK_S)
            self.check_deadlines()

    def close(self) -> None:
        """End what is open."""
        for writing in list(self._open.values()):
            writing.abort()

    def _act(self, writing: Writing, commands: Sequence[AnswerCommand]) -> None:
        for command in commands:
            match command:
                case Generate() | Abort():
                    self._carry_out(command)
                case TextDelta():
                    writing.deliver(command)
                case End():
                    slot = writing.answer.request.slot
                    del self._open[slot]
                    self._slots.give_back(slot)
                    writing.end(command)
