"""Texts that come in pieces while they are already spoken, each taken by a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable

from ouzel.errors import EngineError, OuzelError
from ouzel.orchestrator.request import State
from ouzel.orchestrator.source import words_of
from ouzel.orchestrator.stream import Stream
from ouzel.text.voice_text import TextMode

__all__ = ["Readers"]


class Readers:
    """Hands each source's words to its stream. A source that fails ends its request, and nothing else."""

    def __init__(self, mode: TextMode, longest: int) -> None:
        """:param longest: letters that a text may have"""
        self._mode = mode
        self._longest = longest
        self._tasks: set[asyncio.Task[None]] = set()

    def read(self, stream: Stream, pieces: AsyncIterable[str], *, whole: bool, streaming: bool) -> None:
        """Begin; the stream's end is the reader's, too."""
        task = asyncio.create_task(self._hand_on(stream, pieces, whole, streaming), name=f"text of {stream.id}")

        def over(_: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                stream.abort()
            elif (error := task.exception()) is not None:
                fault = error if isinstance(error, OuzelError) else EngineError(f"the source of the text: {error!r}")
                stream.act(stream.request.fail(fault))

        task.add_done_callback(over)
        stream.on_end = task.cancel
        self._tasks.add(task)

    async def close(self) -> None:
        """End all, and wait until they have."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _hand_on(self, stream: Stream, pieces: AsyncIterable[str], whole: bool, streaming: bool) -> None:
        async for text, ends in words_of(pieces, self._mode, self._longest, whole=whole, streaming=streaming):
            stream.act(stream.request.text(text, whole=ends))
            if stream.request.state is State.DONE:
                return
        stream.act(stream.request.text_over())
