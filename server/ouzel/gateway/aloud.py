"""An answer that is spoken while it is still being written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from ouzel.gateway.answer import Answer
from ouzel.gateway.merge import merged
from ouzel.gateway.speech import Desk, Piece, Speech
from ouzel.gateway.wishes import Wish
from ouzel.stages.core import FinishReason
from ouzel.stages.language import TextDelta
from ouzel.text.markdown import SpokenMarkdown

__all__ = ["SpokenAnswer"]


class SpokenAnswer:
    """One answer with one choice; its thoughts and its calls of tools are not spoken."""

    def __init__(self, desk: Desk, answer: Answer, wish: Wish, longest: int) -> None:
        """:param longest: letters that are spoken"""
        #: the answer so far, as it is written
        self.text = ""
        #: None before it has something to say
        self.speech: Speech | None = None
        self._desk = desk
        self._answer = answer
        self._wish = wish
        self._words = _Words(longest)

    @property
    def reason(self) -> FinishReason:
        """How its sound ended: `length` where not all of it was spoken."""
        if self._words.cut:
            return FinishReason.LENGTH
        return self.speech.end.reason if self.speech and self.speech.end else FinishReason.STOP

    async def parts(self) -> AsyncGenerator[TextDelta | Piece | None, None]:
        """Text and sound of the answer as they are made; None for every 15 s of silence. Closing it aborts both.

        :raises OuzelError: what ended either of them, and with it the other
        """
        sources: list[AsyncGenerator[TextDelta | Piece | None, None]] = [self._written(), self._spoken()]
        async with aclosing(merged(sources)) as parts:
            async for part in parts:
                yield None if part is None else part[1]

    async def _written(self) -> AsyncGenerator[TextDelta | Piece | None, None]:
        markdown = SpokenMarkdown()
        async with aclosing(self._answer.deltas()) as deltas:
            async for delta in deltas:
                if delta is not None and delta.content:
                    self.text += delta.content
                    self._words.put(markdown.feed(delta.content))
                yield delta
        self._words.put(markdown.flush())
        self._words.end()

    async def _spoken(self) -> AsyncGenerator[TextDelta | Piece | None, None]:
        # An answer of marks and pictures alone is a silent one.
        if not await self._words.sayable():
            return
        self.speech = self._desk.say(self._wish, self._words, along=True)
        async with aclosing(self.speech.pieces()) as pieces:
            async for piece in pieces:
                yield piece


class _Words(AsyncIterator[str]):
    """Words on their way to the voice, as they become safe to say."""

    def __init__(self, longest: int) -> None:
        self._left = longest
        self._ready: asyncio.Queue[str | None] = asyncio.Queue()
        self._first = ""
        #: there were more than may be said
        self.cut = False

    def put(self, words: str) -> None:
        if not words or self.cut:
            return
        if len(words) > self._left:
            self.cut = True
            words = words[: self._left].rpartition(" ")[0]
        self._left -= len(words)
        self._ready.put_nowait(words)
        if self.cut:
            self.end()  # the model may go on for long

    def end(self) -> None:
        """No more come."""
        self._ready.put_nowait(None)

    async def sayable(self) -> bool:
        """Wait for the first letter; False where none comes."""
        while not any(map(str.isalnum, self._first)):
            words = await self._ready.get()
            if words is None:
                return False
            self._first += words
        return True

    async def __anext__(self) -> str:
        if self._first:
            first, self._first = self._first, ""
            return first
        words = await self._ready.get()
        if words is None:
            raise StopAsyncIteration
        return words
