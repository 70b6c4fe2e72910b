"""What a request has made on its way to its consumer: a buffer, and how the request ended."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import Generic, TypeVar

from ouzel.orchestrator.request import End
from ouzel.scheduling import ProgressDeadline
from ouzel.stages.core import FinishReason

__all__ = ["Pending"]

Item = TypeVar("Item")


class Pending(ABC, Generic[Item]):
    """What is kept of an open request, sound or text; who fills it says how much it holds."""

    def __init__(self, request_id: str, deadline: ProgressDeadline) -> None:
        self.id = request_id
        self.deadline = deadline
        self._end: End | None = None
        self._buffer: deque[Item] = deque()
        self._changed = asyncio.Event()

    @property
    def ended(self) -> End | None:
        """How it ended for its consumer: known once the last of it was taken, or dropped."""
        return None if self._buffer else self._end

    def end(self, command: End) -> None:
        """Nothing follows. What an aborted request still had is dropped, what a failed one had is still given."""
        self._end = command
        if command.finish is FinishReason.CANCELLED:
            self._buffer.clear()
        self._changed.set()

    @abstractmethod
    async def next(self) -> Item | None:
        """The next piece, or None once there is none.

        :raises OuzelError: what ended the request, after its last piece.
        """

    async def wait(self) -> None:
        """Until there is a piece, or none will come.

        :raises OuzelError: what ended the request before its first piece.
        """
        while not self._buffer and self._end is None:
            self._changed.clear()
            await self._changed.wait()
        if self.ended is not None and self.ended.fault is not None:
            raise self.ended.fault

    def abort(self) -> None:
        """The consumer wants no more, or is gone; also of what the stages are done with and it hasn't taken."""
        self._stop()
        if self._buffer:
            self.end(End(FinishReason.CANCELLED))

    @abstractmethod
    def _stop(self) -> None:
        """Have the stages make no more."""
