"""One utterance of a session: its text while it arrives, and its end, which comes once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from ouzel.errors import OuzelError, TextTooLongError
from ouzel.gateway.conversation import ReplyWish
from ouzel.gateway.speech import Speech
from ouzel.gateway.wishes import Wish
from ouzel.stages.core import FinishReason
from ouzel.text.limits import check_text
from ouzel.text.sentences import SentenceSplitter

__all__ = ["SpokenText", "UtteranceInWork"]


class SpokenText:
    """Text that arrives in pieces, handed on in sentences: `22,` may become `22,1`, so nothing is said too early."""

    def __init__(self, longest: int) -> None:
        """:param longest: letters of the whole text"""
        self._longest = longest
        self._letters = 0
        self._splitter = SentenceSplitter()
        self._ready: asyncio.Queue[str | None] = asyncio.Queue()
        #: no more text comes
        self.ended = False

    def feed(self, text: str) -> None:
        """:raises TextTooLongError: when the whole has become too long
        :raises RequestError: when half a surrogate pair is in it
        """
        self._letters += len(text)
        if self._letters > self._longest:
            raise TextTooLongError(f"text: more letters than the {self._longest} of one utterance", param="text")
        self._hand_on(self._splitter.feed(text))

    def end(self) -> None:
        """No more text comes; ending twice is harmless.

        :raises RequestError: as `feed` does, for what was held back
        """
        if not self.ended:
            self.ended = True
            self._hand_on(self._splitter.flush())
            self._ready.put_nowait(None)

    async def whole(self) -> str:
        """All of it, once it has ended."""
        return "".join([sentence async for sentence in self.sentences()])

    async def sentences(self) -> AsyncGenerator[str, None]:
        """The sentences that have something to say, as they become certain."""
        while (sentence := await self._ready.get()) is not None:
            yield sentence

    def _hand_on(self, sentences: list[str]) -> None:
        for sentence in sentences:
            if sentence.strip():
                self._ready.put_nowait(check_text(sentence, param="text"))


class UtteranceInWork:
    """An utterance from its first piece of text to its `audio.done`."""

    def __init__(self, index: int, wish: Wish, longest: int, reply: ReplyWish | None = None) -> None:
        """:param reply: how its text is to be answered; None where it is to be said itself"""
        self.index = index
        self.wish = wish
        self.reply = reply
        self.text = SpokenText(longest)
        #: None before it has something to say
        self.speech: Speech | None = None
        #: its first audio was announced
        self.started = False
        #: how its sound ended, where nothing stopped it
        self.reason = FinishReason.STOP
        #: when it was told to stop, on the desk's clock
        self.stopped_at: float | None = None
        #: why, where that was not the client's wish
        self.fault: OuzelError | None = None
        self._task: asyncio.Task[None] | None = None

    async def run(self, task: asyncio.Task[None]) -> None:
        """Wait for the work to end, by itself or by `stop`.

        :raises Exception: what the work raised
        """
        self._task = task
        if self.stopped_at is not None:
            task.cancel()
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def stop(self, now: float, fault: OuzelError | None = None) -> None:
        """End it as soon as possible; the first reason counts."""
        if self.stopped_at is None:
            self.stopped_at, self.fault = now, fault
            if self._task is not None:
                self._task.cancel()
