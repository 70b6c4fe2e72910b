"""A session of speech over two-way messages: one task reads, while another speaks the utterances in their order.

An utterance is said as it is, or it is a question, and what a language model answers is written and said.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager
from dataclasses import replace

from ouzel.config.schema import DeployConfig
from ouzel.errors import BusyError, NotReadyError, OuzelError, RequestError
from ouzel.gateway.aloud import SpokenAnswer
from ouzel.gateway.answer import AnswerDesk
from ouzel.gateway.conversation import Conversation, ReplyWish
from ouzel.gateway.dialect import (
    AudioDone,
    AudioPiece,
    AudioStart,
    Cancel,
    Close,
    Command,
    Configure,
    EndOfText,
    Event,
    Fault,
    Message,
    NativeDialect,
    PieceTiming,
    SessionCreated,
    SessionDone,
    Text,
    TextDone,
    TextPiece,
)
from ouzel.gateway.speech import Desk, Piece, Speech
from ouzel.gateway.utterance import UtteranceInWork
from ouzel.gateway.wishes import SessionConfig, Wish
from ouzel.scheduling.deadlines import ProgressDeadline
from ouzel.stages.core import FinishReason
from ouzel.stages.language import TextDelta
from ouzel.stats.phases import Phase

__all__ = ["NORMAL", "Session"]

#: close codes of a WebSocket
NORMAL, GOING_AWAY = 1000, 1001

_MOST_UTTERANCES = 8  # that haven't ended, in one session


class Session:
    """One client's session. It ends with a close code, or with what `receive` or `send` raised."""

    def __init__(
        self,
        desk: Desk,
        answers: AnswerDesk | None,
        config: DeployConfig,
        session_id: str,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
        stopping: asyncio.Event,
    ) -> None:
        """:param answers: None where no language model is served"""
        self._desk = desk
        self._answers = answers
        self._config = config
        self._id = session_id
        self._receive = receive
        self._send_message = send
        self._stopping = stopping
        self._dialect = NativeDialect()
        self._wish: Wish | None = None
        self._reply: ReplyWish | None = None
        self._conversation = Conversation()
        #: those that haven't ended, by number; the oldest is the one that speaks
        self._unfinished: dict[int, UtteranceInWork] = {}
        self._queue: asyncio.Queue[UtteranceInWork | None] = asyncio.Queue()
        self._newest = -1
        self._idle = ProgressDeadline(config.gateway.idle_s, desk.clock)

    async def run(self) -> int:
        """Serve the client until one side ends it.

        :raises TimeoutError: when the client takes no audio
        """
        roles = [self._read(), self._speak_all(), self._watch_idle(), self._watch_stop()]
        tasks = [asyncio.ensure_future(role) for role in roles]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return next(task for task in tasks if task in done).result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self) -> int:
        while True:
            message = await self._receive()
            self._idle.progress()
            try:
                await self._obey(self._dialect.receive(message))
            except OuzelError as error:
                await self._send(Fault(error))

    async def _speak_all(self) -> int:
        while (utterance := await self._queue.get()) is not None:
            done = await self._speak_one(utterance)
            del self._unfinished[utterance.index]
            if utterance.stopped_at is not None:
                self._desk.metrics.cancelled(self._desk.clock() - utterance.stopped_at)
            await self._send(done)
        await self._send(SessionDone(self._newest + 1))
        return NORMAL

    async def _watch_idle(self) -> int:
        while not self._idle.expired:
            await asyncio.sleep(self._idle.remaining_s)
            if any(utterance.text.ended for utterance in self._unfinished.values()):
                self._idle.progress()  # it is the client who waits; the stages have deadlines of their own
        await self._send(Fault(RequestError(f"nothing happened for {self._config.gateway.idle_s:g} s")))
        return GOING_AWAY

    async def _watch_stop(self) -> int:
        await self._stopping.wait()
        return GOING_AWAY

    async def _obey(self, command: Command) -> None:
        match command:
            case Configure(config):
                await self._configure(config)
            case Text(index, text):
                await self._feed(index, text)
            case EndOfText(index):
                await self._feed(index, "")
                self._end_text(index)
            case Cancel(index):
                for utterance in list(self._unfinished.values()):
                    if index in (None, utterance.index):
                        utterance.stop(self._desk.clock())
            case Close():
                for index in self._unfinished:
                    self._end_text(index)
                self._queue.put_nowait(None)

    async def _configure(self, config: SessionConfig) -> None:
        self._desk.check_ready()
        reply = self._reply_wish(config) if config.respond else None
        voices, rate = self._desk.voices, self._desk.speaker.sample_rate
        first = self._wish is None
        self._wish = config.wish(config.format, voices, rate, format_param="format")
        self._reply = reply
        if first:
            await self._send(SessionCreated(self._id, voices.names, rate))

    def _reply_wish(self, config: SessionConfig) -> ReplyWish:
        """:raises NotReadyError: when the language model can answer nothing now."""
        if self._answers is None:
            raise RequestError("respond: no language model is served here", param="respond")
        now = self._answers.language.status()
        if not now.serving:
            raise NotReadyError(f"the language model is {now.state.value}{now.reason and f': {now.reason}'}")
        return ReplyWish(
            system=config.system, temperature=config.temperature, max_tokens=config.max_tokens, seed=config.seed
        )

    async def _feed(self, index: int, text: str) -> None:
        """Text of an utterance; what comes for one that has ended is dropped."""
        if index > self._newest:
            await self._begin(index)
        if (utterance := self._unfinished.get(index)) is not None:
            with self._stopping_on_fault(utterance):
                utterance.text.feed(text)

    async def _begin(self, index: int) -> None:
        if self._wish is None:
            raise RequestError("type: session.config must be accepted first", param="type")
        self._newest = index
        if len(self._unfinished) >= _MOST_UTTERANCES:
            error = BusyError(f"{_MOST_UTTERANCES} utterances of this session wait already; let one end first")
            await self._send(_ended(index, FinishReason.ERROR, None, error))
            return
        utterance = UtteranceInWork(index, self._wish, self._config.limits.max_text_letters, self._reply)
        self._unfinished[index] = utterance
        self._queue.put_nowait(utterance)

    def _end_text(self, index: int) -> None:
        if (utterance := self._unfinished.get(index)) is not None:
            with self._stopping_on_fault(utterance):
                utterance.text.end()

    @contextmanager
    def _stopping_on_fault(self, utterance: UtteranceInWork) -> Generator[None, None, None]:
        try:
            yield
        except RequestError as error:
            utterance.stop(self._desk.clock(), error)

    async def _speak_one(self, utterance: UtteranceInWork) -> AudioDone:
        """Speak it to its end, whatever that is."""
        reason, fault = FinishReason.STOP, None
        try:
            work = self._speak(utterance) if utterance.reply is None else self._respond(utterance, utterance.reply)
            await utterance.run(asyncio.ensure_future(work))
            reason = utterance.reason
            if utterance.stopped_at is not None:
                reason, fault = FinishReason.CANCELLED, utterance.fault
        except OuzelError as error:
            fault = error
        return _ended(utterance.index, reason if fault is None else FinishReason.ERROR, utterance.speech, fault)

    async def _speak(self, utterance: UtteranceInWork) -> None:
        async with aclosing(utterance.text.sentences()) as sentences:
            first = await anext(sentences, None)
            if first is None:
                return
            speech = utterance.speech = self._desk.say(utterance.wish, _with_first(first, sentences))
            async with aclosing(speech.pieces()) as pieces:
                async for piece in pieces:
                    await self._send_piece(utterance, piece)
            if speech.end is not None:
                utterance.reason = speech.end.reason

    async def _respond(self, utterance: UtteranceInWork, wish: ReplyWish) -> None:
        """Answer it, in text and in sound as they are made."""
        question = await utterance.text.whole()
        if not question:
            return
        assert self._answers is not None
        request = self._conversation.request(question, wish, self._answers.language)
        answer = self._answers.answer([request], f"{self._id}-{utterance.index}")
        spoken = SpokenAnswer(self._desk, answer, utterance.wish, self._config.limits.max_text_letters)
        try:
            async with aclosing(spoken.parts()) as parts:
                async for part in parts:
                    utterance.speech = spoken.speech
                    if isinstance(part, Piece):
                        await self._send_piece(utterance, part)
                    elif part is not None:
                        await self._send_text(utterance, spoken, part)
            utterance.reason = spoken.reason
        finally:
            self._conversation.keep(question, spoken.text)

    async def _send_text(self, utterance: UtteranceInWork, spoken: SpokenAnswer, delta: TextDelta) -> None:
        if delta.content:
            await self._send(TextPiece(utterance.index, delta.content))
        if delta.usage is not None:
            reason = delta.finish or FinishReason.STOP
            await self._send(TextDone(utterance.index, spoken.text, reason, delta.usage))

    async def _send_piece(self, utterance: UtteranceInWork, piece: Piece) -> None:
        began = time.perf_counter_ns()
        if piece.data:
            if not utterance.started:
                utterance.started = True
                shape = utterance.wish.shape
                await self._send(AudioStart(utterance.index, shape.format.name, shape.sample_rate))
            await self._send(AudioPiece(piece.data))
        if utterance.wish.timing and piece.timing.frames:
            phases = {**piece.timing.phases, Phase.SEND: time.perf_counter_ns() - began}
            await self._send(PieceTiming(utterance.index, replace(piece.timing, phases=phases)))

    async def _send(self, event: Event) -> None:
        """Hand an event to the client.

        :raises TimeoutError: when it takes nothing for too long
        """
        async with asyncio.timeout(self._config.gateway.send_deadline_s):
            await self._send_message(self._dialect.send(event))
        self._idle.progress()


async def _with_first(first: str, rest: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    yield first
    async for sentence in rest:
        yield sentence


def _ended(index: int, reason: FinishReason, speech: Speech | None, error: OuzelError | None = None) -> AudioDone:
    frames, audio_ms = (speech.frames, speech.audio_ms) if speech else (0, 0.0)
    return AudioDone(utterance=index, reason=reason, frames=frames, audio_ms=audio_ms, error=error)
