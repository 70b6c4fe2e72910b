"""Omni: AsyncOmni for callers without an event loop of their own.

with Omni(deploy_profile="edge") as omni:
    for chunk in omni.speak("The river keeps its own time."):
        play(chunk.samples)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack
from typing import Any, Self, TypeVar

from ouzel.errors import NotReadyError, OuzelError
from ouzel.orchestrator.generation import Generation
from ouzel.orchestrator.health import Health
from ouzel.orchestrator.omni import AsyncOmni
from ouzel.orchestrator.speech import AudioChunk, Speech
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, TextDelta, Usage
from ouzel.stats.snapshot import Snapshot
from ouzel.stats.timeline import Span

__all__ = ["Omni", "SyncGeneration", "SyncSpeech"]

T = TypeVar("T")


class Omni:
    """The same server behind ordinary calls; its event loop runs in a thread of its own."""

    def __init__(self, **options: Any) -> None:
        """:param options: those of `AsyncOmni`, which also says what is raised"""
        self._omni = AsyncOmni(**options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def sample_rate(self) -> int:
        return self._omni.sample_rate

    def speak(self, text: str, **wishes: Any) -> SyncSpeech:
        """Begin to speak a text; wishes and errors are those of `AsyncOmni.speak`."""

        async def begin() -> Speech:
            return self._omni.speak(text, **wishes)

        return SyncSpeech(self, self._do(begin()))

    def generate(self, request: LanguageRequest, request_id: str | None = None) -> SyncGeneration:
        """Begin to answer in text; errors are those of `AsyncOmni.generate`."""

        async def begin() -> Generation:
            return self._omni.generate(request, request_id)

        return SyncGeneration(self, self._do(begin()))

    def health(self) -> Health:
        return self._omni.health()

    def stats(self) -> list[Snapshot]:
        return self._do(self._omni.stats())

    def timeline(self) -> tuple[Span, ...]:
        return self._omni.timeline()

    def __enter__(self) -> Self:
        """:raises OuzelError: what keeps a stage from its start"""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="omni", daemon=True)
        self._thread.start()
        with ExitStack() as undo:
            undo.callback(self._end_loop)
            self._do(self._omni.__aenter__())
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._do(self._omni.__aexit__())
        finally:
            self._end_loop()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise NotReadyError("the server is stopped: use Omni as a context manager")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end_loop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(loop.shutdown_default_executor(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()


class SyncSpeech:
    """The sound of one request; iterate over it, close it to abort."""

    def __init__(self, omni: Omni, speech: Speech) -> None:
        self._omni = omni
        self._speech = speech

    @property
    def id(self) -> str:
        return self._speech.id

    @property
    def finish(self) -> FinishReason | None:
        return self._speech.finish

    @property
    def fault(self) -> OuzelError | None:
        return self._speech.fault

    @property
    def frames(self) -> int:
        return self._speech.frames

    def __iter__(self) -> Iterator[AudioChunk]:
        return self

    def __next__(self) -> AudioChunk:
        """:raises OuzelError: what ended the request, after its last sound"""
        chunk = self._omni._do(self._next())
        if chunk is None:
            raise StopIteration
        return chunk

    def wait(self) -> None:
        """Until there is sound, or none will come.

        :raises OuzelError: what ended the request before its first sound
        """
        self._omni._do(self._speech.wait())

    def close(self) -> None:
        """Abort unless it has ended."""
        self._omni._do(self._speech.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _next(self) -> AudioChunk | None:
        # A StopAsyncIteration can't leave a coroutine as itself.
        return await anext(self._speech, None)


class SyncGeneration:
    """The text of one request; iterate over it, close it to abort."""

    def __init__(self, omni: Omni, generation: Generation) -> None:
        self._omni = omni
        self._generation = generation

    @property
    def id(self) -> str:
        return self._generation.id

    @property
    def finish(self) -> FinishReason | None:
        return self._generation.finish

    @property
    def fault(self) -> OuzelError | None:
        return self._generation.fault

    @property
    def usage(self) -> Usage | None:
        return self._generation.usage

    def __iter__(self) -> Iterator[TextDelta]:
        return self

    def __next__(self) -> TextDelta:
        """:raises OuzelError: what ended the request, after its last text"""
        delta = self._omni._do(self._next())
        if delta is None:
            raise StopIteration
        return delta

    def wait(self) -> None:
        """Until there is text, or none will come.

        :raises OuzelError: what ended the request before its first text
        """
        self._omni._do(self._generation.wait())

    def close(self) -> None:
        """Abort unless it has ended."""
        self._omni._do(self._generation.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _next(self) -> TextDelta | None:
        # A StopAsyncIteration can't leave a coroutine as itself.
        return await anext(self._generation, None)
