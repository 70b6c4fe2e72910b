"""What `speak` gives its caller: the sound of one request, piece by piece."""

from __future__ import annotations

import asyncio

from ouzel.orchestrator.output import Output
from ouzel.orchestrator.stream import AudioChunk, Stream

__all__ = ["AudioChunk", "Speech"]


class Speech(Output[AudioChunk]):
    """Iterate over it, and leave it as a context manager, so that it ends when nobody listens any more.

        async with omni.speak("Hello.") as speech:
            async for chunk in speech:
                play(chunk.samples)

    Not taking sound makes its talker wait, and nobody else's. Dropping it unfinished aborts it. Its `finish` is
    `length` where any sentence reached its frame limit.
    """

    def __init__(self, stream: Stream, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(stream, loop)
        self._stream = stream

    @property
    def frames(self) -> int:
        """Frames of sound that have been made."""
        return self._stream.request.received

    @property
    def gaps_s(self) -> list[float]:
        """Silences of a listener who plays everything as soon as it comes."""
        return self._stream.cursor.gaps_s
