"""An answer on its way to its consumer, in a bounded number of deltas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ouzel.orchestrator.answer import Answer, AnswerCommand
from ouzel.orchestrator.pending import Pending
from ouzel.scheduling import ProgressDeadline
from ouzel.stages.language import TextDelta, ToolCallDelta

__all__ = ["MOST_DELTAS", "Writing", "joined"]

#: Deltas kept for a consumer that doesn't take them; what comes then is joined to what is there. The text itself is
#: bounded by the model's context.
MOST_DELTAS = 64


class Writing(Pending[TextDelta]):
    """What is kept of an open request of text."""

    def __init__(
        self,
        answer: Answer,
        request_id: str,
        deadline: ProgressDeadline,
        act: Callable[[Writing, Sequence[AnswerCommand]], None],
    ) -> None:
        """:param act: carries out what the answer says to an event"""
        super().__init__(request_id, deadline)
        self.answer = answer
        self._act = act

    def act(self, commands: Sequence[AnswerCommand]) -> None:
        """Carry out what the answer said to an event."""
        self._act(self, commands)

    def deliver(self, delta: TextDelta) -> None:
        """Take text from the stage."""
        if len(self._buffer) >= MOST_DELTAS and (before := self._newest(delta.index)) is not None:
            self._buffer.remove(before)
            delta = joined(before, delta)
        self._buffer.append(delta)
        self._changed.set()

    async def next(self) -> TextDelta | None:
        await self.wait()
        return self._buffer.popleft() if self._buffer else None

    def _stop(self) -> None:
        self.act(self.answer.abort())

    def _newest(self, index: int) -> TextDelta | None:
        return next((delta for delta in reversed(self._buffer) if delta.index == index), None)


def joined(first: TextDelta, second: TextDelta) -> TextDelta:
    """Two deltas of one choice, one after the other, as one."""
    return replace(
        second,
        content=first.content + second.content,
        reasoning=first.reasoning + second.reasoning,
        tool_calls=_joined_calls((*first.tool_calls, *second.tool_calls)),
        logprobs=(*first.logprobs, *second.logprobs),
    )


def _joined_calls(pieces: Sequence[ToolCallDelta]) -> tuple[ToolCallDelta, ...]:
    calls: dict[int, ToolCallDelta] = {}
    for piece in pieces:
        before = calls.get(piece.index)
        calls[piece.index] = replace(before, arguments=before.arguments + piece.arguments) if before else piece
    return tuple(calls.values())
