"""What `speak` gives its caller: the sound of one request, piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Self

from ouzel.errors import OuzelError
from ouzel.orchestrator.stream import AudioChunk, Stream
from ouzel.stages.core import FinishReason

__all__ = ["AudioChunk", "Speech"]


class Speech:
    """Iterate over it, and leave it as a context manager, so that it ends when nobody listens any more.

        async with omni.speak("Hello.") as speech:
            async for chunk in speech:
                play(chunk.samples)

    Not taking sound makes its talker wait, and nobody else's. Dropping it unfinished aborts it.
    """

    def __init__(self, stream: Stream, loop: asyncio.AbstractEventLoop) -> None:
        self._stream = stream
        self._loop = loop

    @property
    def id(self) -> str:
        return self._stream.id

    @property
    def finish(self) -> FinishReason | None:
        """How it ended; None until its last sound was taken. `length` where any sentence reached its frame limit."""
        return self._stream.ended.finish if self._stream.ended else None

    @property
    def fault(self) -> OuzelError | None:
        """What went wrong, where it ended with `error`."""
        return self._stream.ended.fault if self._stream.ended else None

    @property
    def frames(self) -> int:
        """Frames of sound that have been made."""
        return self._stream.request.received

    @property
    def gaps_s(self) -> list[float]:
        """Silences of a listener who plays everything as soon as it comes."""
        return self._stream.cursor.gaps_s

    async def wait(self) -> None:
        """Until there is sound, or none will come.

        :raises OuzelError: what ended the request before its first sound
        """
        await self._stream.wait()

    def abort(self) -> None:
        """Make no more; iteration ends at once. What has ended stays as it ended."""
        self._stream.abort()

    def __aiter__(self) -> AsyncIterator[AudioChunk]:
        return self

    async def __anext__(self) -> AudioChunk:
        """:raises OuzelError: what ended the request, after its last sound"""
        chunk = await self._stream.next()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Abort unless it has ended."""
        self.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        # The last reference may go in any thread, and after the loop.
        if self._stream.ended is None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stream.abort)
