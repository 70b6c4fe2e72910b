"""`POST /v1/chat/completions`, whose answers may also be spoken: `modalities: ["text", "audio"]`."""

from __future__ import annotations

import asyncio
import base64
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Protocol

from starlette.requests import Request

from ouzel.audio.chain import Shape, whole_file
from ouzel.audio.formats import find_format
from ouzel.config.schema import DeployConfig
from ouzel.errors import RequestError
from ouzel.gateway.aloud import SpokenAnswer
from ouzel.gateway.answer import Answer, AnswerDesk
from ouzel.gateway.chat_wishes import AudioWish, ChatRequest
from ouzel.gateway.events import event
from ouzel.gateway.forms import Choice, Form, Reply
from ouzel.gateway.merge import PING
from ouzel.gateway.speech import Desk, Piece
from ouzel.gateway.text_rest import TextEndpoint
from ouzel.gateway.wishes import VoiceId, Wish
from ouzel.stages.core import FinishReason
from ouzel.stages.language import TextDelta

__all__ = ["ChatEndpoint", "Transcripts"]

_PCM16_RATE = 24_000  # OpenAI's
_LIFE_S = 3600
_MOST_KEPT = 256


class ChunkForm(Form, Protocol):
    """A form whose chunks can be made one by one."""

    def chunk(self, index: int, said: dict[str, Any], *, finish: FinishReason | None = None) -> Reply:
        """One chunk with that `delta`."""


class Transcripts:
    """The texts of spoken answers, for clients that send back an answer's id in its place."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """:param clock: seconds since 1970"""
        self._clock = clock
        self._kept: OrderedDict[str, tuple[str, int]] = OrderedDict()

    def keep(self, audio_id: str, text: str) -> int:
        """Keep a text; the oldest is forgotten. Answers the second since 1970 until which it is kept."""
        expires_at = int(self._clock()) + _LIFE_S
        self._kept[audio_id] = text, expires_at
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return expires_at

    def filled(self, messages: list[Any]) -> list[Any]:
        """The messages, those that name an answer's id with its text.

        :raises RequestError: when there is no such answer, or it is forgotten
        """
        return [self._filled(message, f"messages[{at}].audio") for at, message in enumerate(messages)]

    def _filled(self, message: Any, where: str) -> Any:
        if not isinstance(message, dict) or message.get("role") != "assistant" or not message.get("audio"):
            return message
        named = message["audio"].get("id") if isinstance(message["audio"], dict) else None
        text, expires_at = self._kept.get(named, ("", 0)) if isinstance(named, str) else ("", 0)
        if expires_at <= self._clock():
            raise RequestError(
                f"{where}.id: {named!r} is no answer that is kept; send its text as content", param=where
            )
        return {name: value for name, value in message.items() if name != "audio"} | {"content": text}


class ChatEndpoint(TextEndpoint[ChatRequest, ChunkForm]):
    """The endpoint, and what all its requests share.

    The transcript of a spoken answer is the text as the model wrote it, which `content` has where nothing is spoken.
    """

    def __init__(
        self,
        speech: Desk,
        answers: AnswerDesk,
        form: Callable[[ChatRequest, str, str, int], ChunkForm],
        config: DeployConfig,
        stopping: asyncio.Event,
    ) -> None:
        super().__init__(answers, ChatRequest, form, config.gateway, stopping)
        self._speech = speech
        self._longest = config.limits.max_text_letters
        self._transcripts = Transcripts()

    async def _read(self, request: Request) -> ChatRequest:
        asked = await super()._read(request)
        asked.messages = self._transcripts.filled(asked.messages)
        return asked

    async def _whole(self, asked: ChatRequest, answer: Answer, form: ChunkForm) -> Reply:
        if (audio := asked.aloud) is None:
            return await super()._whole(asked, answer, form)
        spoken, choice, sound = self._spoken(asked, audio, answer), Choice(), list[bytes]()
        async with aclosing(spoken.parts()) as parts:
            async for part in parts:
                if isinstance(part, Piece):
                    sound.append(part.data)
                elif part is not None:
                    choice.add(part)
        choice.finish = _finish(choice, spoken)
        assert answer.usage is not None
        reply = form.whole([choice], answer.usage)
        if spoken.speech is not None:
            shape = spoken.speech.wish.shape
            data = await self._speech.compute(lambda: base64.b64encode(whole_file(shape, sound)).decode())
            name = _audio_id(answer)
            expires_at = self._transcripts.keep(name, spoken.text)
            said = {"id": name, "data": data, "expires_at": expires_at, "transcript": spoken.text}
            reply["choices"][0]["message"] |= {"content": None, "audio": said}
        return reply

    async def _parts(self, asked: ChatRequest, answer: Answer, form: ChunkForm) -> AsyncGenerator[bytes, None]:
        if (audio := asked.aloud) is None:
            async with aclosing(super()._parts(asked, answer, form)) as texts:
                async for text in texts:
                    yield text
            return
        spoken, choice, name = self._spoken(asked, audio, answer), Choice(), _audio_id(answer)
        async with aclosing(spoken.parts()) as parts:
            async for part in parts:
                if part is None:
                    yield PING
                elif isinstance(part, TextDelta):
                    choice.add(part)
                    yield b"".join(map(event, _text_chunks(form, part, name)))
                elif part.data:
                    data = base64.b64encode(part.data).decode()
                    yield event(form.chunk(0, {"audio": {"id": name, "data": data}}))
        if spoken.text:
            expires_at = self._transcripts.keep(name, spoken.text)
            yield event(form.chunk(0, {"audio": {"id": name, "expires_at": expires_at}}))
        yield event(form.chunk(0, {}, finish=_finish(choice, spoken)))

    def _spoken(self, asked: ChatRequest, audio: AudioWish, answer: Answer) -> SpokenAnswer:
        self._speech.check_ready()
        pcm16 = audio.format == "pcm16"
        chosen = find_format("pcm" if pcm16 else audio.format, param="audio.format")
        rate = chosen.check_rate(_PCM16_RATE if pcm16 else self._speech.speaker.sample_rate)
        voice = audio.voice.id if isinstance(audio.voice, VoiceId) else audio.voice
        wish = Wish(
            speaker=self._speech.voices.find(voice, param="audio.voice"),
            shape=Shape(chosen, rate),
            seed=answer.requests[0].sampling.seed,
        )
        return SpokenAnswer(self._speech, answer, wish, self._longest)


def _text_chunks(form: ChunkForm, delta: TextDelta, name: str) -> Iterator[Reply]:
    # The end is said when the sound has ended too.
    yield from form.chunks(replace(delta, content="", finish=None))
    if delta.content:
        yield form.chunk(delta.index, {"audio": {"id": name, "transcript": delta.content}})


def _finish(choice: Choice, spoken: SpokenAnswer) -> FinishReason | None:
    return FinishReason.LENGTH if spoken.reason is FinishReason.LENGTH else choice.finish


def _audio_id(answer: Answer) -> str:
    return f"audio_{answer.request_id}"
