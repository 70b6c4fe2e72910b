"""What `generate` gives its caller: the text of one request, delta by delta."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Self

from ouzel.errors import OuzelError
from ouzel.orchestrator.writing import Writing
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, TextDelta, Usage

__all__ = ["Generation"]


class Generation:
    """Iterate over it, and leave it as a context manager, so that it ends when nobody reads any more.

        async with omni.generate(LanguageRequest(prompt="The river")) as generation:
            async for delta in generation:
                show(delta.content)

    The last delta has the usage. Who reads slowly gets longer deltas, and holds up nobody. Dropping it unfinished
    aborts it.
    """

    def __init__(self, writing: Writing, loop: asyncio.AbstractEventLoop) -> None:
        self._writing = writing
        self._loop = loop

    @property
    def id(self) -> str:
        return self._writing.id

    @property
    def request(self) -> LanguageRequest:
        return self._writing.answer.request

    @property
    def finish(self) -> FinishReason | None:
        """How it ended, its first choice where it has several; None until its last delta was taken."""
        return self._writing.ended.finish if self._writing.ended else None

    @property
    def fault(self) -> OuzelError | None:
        """What went wrong, where it ended with `error`."""
        return self._writing.ended.fault if self._writing.ended else None

    @property
    def usage(self) -> Usage | None:
        """Tokens of the whole request; None until the model is done."""
        return self._writing.answer.usage

    async def wait(self) -> None:
        """Until there is text, or none will come.

        :raises OuzelError: what ended the request before its first text
        """
        await self._writing.wait()

    def abort(self) -> None:
        """Write no more; iteration ends at once. What has ended stays as it ended."""
        self._writing.abort()

    def __aiter__(self) -> AsyncIterator[TextDelta]:
        return self

    async def __anext__(self) -> TextDelta:
        """:raises OuzelError: what ended the request, after its last text"""
        delta = await self._writing.next()
        if delta is None:
            raise StopAsyncIteration
        return delta

    async def aclose(self) -> None:
        """Abort unless it has ended."""
        self.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        # The last reference may go in any thread, and after the loop.
        if self._writing.ended is None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._writing.abort)
