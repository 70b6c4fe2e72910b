"""An answer on its way to its consumer: a bounded buffer, and how it ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from ouzel.orchestrator.answer import Answer, AnswerCommand
from ouzel.orchestrator.request import End
from ouzel.scheduling import ProgressDeadline
from ouzel.stages.core import FinishReason
from ouzel.stages.language import TextDelta, ToolCallDelta

__all__ = ["MOST_DELTAS", "Writing", "joined"]

#: Deltas kept for a consumer that doesn't take them; what comes then is joined to what is there. The text itself is
#: bounded by the model's context.
MOST_DELTAS = 64


class Writing:
    """What is kept of an open request of text."""

    def __init__(
        self,
        answer: Answer,
        request_id: str,
        deadline: ProgressDeadline,
        act: Callable[[Writing, Sequence[AnswerCommand]], None],
    ) -> None:
        """:param act: carries out what the answer says to an event"""
        self.answer = answer
        self.id = request_id
        self.deadline = deadline
        self._act = act
        self._end: End | None = None
        self._buffer: deque[TextDelta] = deque()
        self._changed = asyncio.Event()

    @property
    def ended(self) -> End | None:
        """How it ended for its consumer: known once the last delta was taken, or dropped."""
        return None if self._buffer else self._end

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

    def end(self, command: End) -> None:
        """Nothing follows. What an aborted request still had is dropped, what a failed one had is still told."""
        self._end = command
        if command.finish is FinishReason.CANCELLED:
            self._buffer.clear()
        self._changed.set()

    async def next(self) -> TextDelta | None:
        """The next text, or None once there is none.

        :raises OuzelError: what ended the request, after its last text.
        """
        await self.wait()
        return self._buffer.popleft() if self._buffer else None

    async def wait(self) -> None:
        """Until there is text, or none will come.

        :raises OuzelError: what ended the request before its first text.
        """
        while not self._buffer and self._end is None:
            self._changed.clear()
            await self._changed.wait()
        if self.ended is not None and self.ended.fault is not None:
            raise self.ended.fault

    def abort(self) -> None:
        """The consumer wants no more, or is gone; also of what the stage is done with and it hasn't taken."""
        self.act(self.answer.abort())
        if self._buffer:
            self.end(End(FinishReason.CANCELLED))

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
