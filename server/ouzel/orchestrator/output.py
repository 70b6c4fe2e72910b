"""What a caller holds of its request, and what becomes of the request when the caller lets go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, Self, TypeVar

from ouzel.errors import OuzelError
from ouzel.orchestrator.pending import Pending
from ouzel.stages.core import FinishReason

__all__ = ["Output"]

Item = TypeVar("Item")


class Output(Generic[Item]):
    """Iterate over it, and leave it as a context manager, so that it ends when nobody takes it any more.

    Dropping it unfinished aborts it.
    """

    def __init__(self, pending: Pending[Item], loop: asyncio.AbstractEventLoop) -> None:
        self._pending = pending
        self._loop = loop

    @property
    def id(self) -> str:
        return self._pending.id

    @property
    def finish(self) -> FinishReason | None:
        """How it ended; None until the last of it was taken."""
        return self._pending.ended.finish if self._pending.ended else None

    @property
    def fault(self) -> OuzelError | None:
        """What went wrong, where it ended with `error`."""
        return self._pending.ended.fault if self._pending.ended else None

    async def wait(self) -> None:
        """Until there is something to take, or nothing will come.

        :raises OuzelError: what ended the request before its first piece
        """
        await self._pending.wait()

    def abort(self) -> None:
        """Make no more; iteration ends at once. What has ended stays as it ended."""
        self._pending.abort()

    def __aiter__(self) -> AsyncIterator[Item]:
        return self

    async def __anext__(self) -> Item:
        """:raises OuzelError: what ended the request, after its last piece"""
        item = await self._pending.next()
        if item is None:
            raise StopAsyncIteration
        return item

    async def aclose(self) -> None:
        """Abort unless it has ended."""
        self.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        # The last reference may go in any thread, and after the loop.
        if self._pending.ended is None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pending.abort)
