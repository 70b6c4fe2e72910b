"""`POST /v1/audio/speech`: the body is the audio while it is made, events, or one file with its length."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from ouzel.audio.chain import whole_file
from ouzel.config.schema import DeployConfig
from ouzel.errors import EngineError, RequestError
from ouzel.gateway.bodies import read_fields
from ouzel.gateway.events import speech_events
from ouzel.gateway.gone import unless_gone
from ouzel.gateway.live import LIVE_HEADERS, LiveResponse
from ouzel.gateway.replies import model_warning
from ouzel.gateway.speech import Desk, Piece, Speech
from ouzel.gateway.timing import StepLog, Timing, server_timing
from ouzel.gateway.wishes import SpeechRequest, UnknownFields, parse_fields
from ouzel.text.limits import check_text

__all__ = ["SpeechEndpoint"]


class SpeechEndpoint:
    """The endpoint, and what all its requests share."""

    def __init__(self, desk: Desk, config: DeployConfig, steps: StepLog, stopping: asyncio.Event) -> None:
        self._desk = desk
        self._config = config
        self._steps = steps
        self._stopping = stopping
        self._unknown = UnknownFields()

    async def __call__(self, request: Request) -> Response:
        """:raises OuzelError: before anything of the reply is sent."""
        asked = await self._read(request)
        self._desk.check_ready()
        text = check_text(asked.input, longest=self._config.limits.max_text_letters)
        wish = asked.wish(
            asked.response_format, self._desk.voices, self._desk.speaker.sample_rate, format_param="response_format"
        )
        speech = self._desk.say(wish, text)
        record = self._steps.open(request.scope["state"]["request_id"])
        pieces = _sounding(speech, record)
        events = asked.stream_format == "sse"
        headers = model_warning(asked.model, self._desk.speaker.model)
        if asked.stream is False:
            return await unless_gone(request.receive, self._stopping, _buffered(speech, pieces, events, headers))
        body = speech_events(speech, pieces) if events else _audio(pieces)
        # What goes wrong before the first sound still has a status to say it with.
        first = await unless_gone(request.receive, self._stopping, anext(body))
        if record:
            headers["Server-Timing"] = server_timing(record[0])
        kind = "text/event-stream" if events else wish.shape.content_type
        deadline_s = self._config.gateway.send_deadline_s
        return LiveResponse(first, body, kind, LIVE_HEADERS | headers, deadline_s, self._stopping)

    async def _read(self, request: Request) -> SpeechRequest:
        fields = await read_fields(request, self._config.gateway)
        asked = parse_fields(SpeechRequest, fields)
        self._unknown.note(SpeechRequest, fields, strict=request.query_params.get("strict") == "1")
        return asked


async def _sounding(speech: Speech, record: list[Timing]) -> AsyncGenerator[Piece, None]:
    """The pieces, noted down as they pass.

    :raises EngineError: when the utterance ends well and yet had no sound: silence is no success
    """
    async with aclosing(speech.pieces()) as pieces:
        try:
            async for piece in pieces:
                if piece.timing.frames:
                    record.append(piece.timing)
                elif not speech.frames:
                    raise EngineError("the voice made no sound for this text")
                yield piece
        except RequestError as error:
            raise _in_words_of_rest(error) from None


def _in_words_of_rest(error: RequestError) -> RequestError:
    """The same, with the name that the text has here."""
    if error.param != "text":
        return error
    return type(error)(str(error).replace("text:", "input:", 1), param="input")


async def _audio(pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        async for piece in pieces:
            if piece.data:
                yield piece.data


async def _buffered(
    speech: Speech, pieces: AsyncGenerator[Piece, None], events: bool, headers: dict[str, str]
) -> Response:
    """The whole reply at once, with its length."""
    async with aclosing(speech_events(speech, pieces) if events else _audio(pieces)) as body:
        parts = [part async for part in body]
    if events:
        return Response(b"".join(parts), media_type="text/event-stream", headers=headers)
    if speech.end is not None:
        headers["X-Finish-Reason"] = speech.end.reason.value
    shape = speech.wish.shape
    return Response(whole_file(shape, parts), headers=headers | {"Content-Type": shape.content_type})
