"""`POST /v1/completions` and `/v1/chat/completions`: one JSON object, or events while the text is written."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Generic, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ouzel.config.schema import GatewayConfig
from ouzel.errors import OuzelError
from ouzel.gateway.answer import Answer, AnswerDesk
from ouzel.gateway.bodies import read_fields
from ouzel.gateway.events import event
from ouzel.gateway.forms import Choice, Form, Reply
from ouzel.gateway.gone import unless_gone
from ouzel.gateway.live import LIVE_HEADERS, LiveResponse
from ouzel.gateway.merge import PING
from ouzel.gateway.replies import Json, error_body, model_warning
from ouzel.gateway.text_wishes import TextFields, check_values
from ouzel.gateway.wishes import UnknownFields, parse_fields

__all__ = ["DONE", "TextEndpoint"]

log = logging.getLogger(__name__)

#: ends a stream that is whole, and no other
DONE = b"data: [DONE]\n\n"

Asked = TypeVar("Asked", bound=TextFields)
Shaped = TypeVar("Shaped", bound=Form)


class TextEndpoint(Generic[Asked, Shaped]):
    """One of the two endpoints, and what all its requests share."""

    def __init__(
        self,
        desk: AnswerDesk,
        kind: type[Asked],
        form: Callable[[Asked, str, str, int], Shaped],
        gateway: GatewayConfig,
        stopping: asyncio.Event,
    ) -> None:
        """
        :param kind: what its requests may have in them
        :param form: of a request, its number, the model's name and the second since 1970: how it is answered
        """
        self._desk = desk
        self._kind = kind
        self._form = form
        self._gateway = gateway
        self._stopping = stopping
        self._unknown = UnknownFields()

    async def __call__(self, request: Request) -> Response:
        """:raises OuzelError: before anything of the reply is sent."""
        asked = await self._read(request)
        request_id = request.scope["state"]["request_id"]
        answer = self._desk.answer(asked.requests(), request_id)
        model = self._desk.model or asked.model or ""
        form = self._form(asked, request_id, model, int(time.time()))
        headers = model_warning(asked.model, model)
        if not asked.stream:
            reply = await unless_gone(request.receive, self._stopping, self._whole(asked, answer, form))
            return Json(reply, headers=headers | _server_timing(answer))
        body = self._events(asked, answer, form)
        # What goes wrong before the first text still has a status to say it with.
        first = await unless_gone(request.receive, self._stopping, anext(body))
        headers |= LIVE_HEADERS | _server_timing(answer)
        deadline_s = self._gateway.send_deadline_s
        return LiveResponse(first, body, "text/event-stream", headers, deadline_s, self._stopping)

    async def _read(self, request: Request) -> Asked:
        fields = await read_fields(request, self._gateway)
        check_values(fields)
        asked = parse_fields(self._kind, fields)
        self._unknown.note(self._kind, fields, strict=request.query_params.get("strict") == "1")
        return asked

    async def _whole(self, asked: Asked, answer: Answer, form: Shaped) -> Reply:
        choices = [Choice() for request in answer.requests for _ in range(request.n)]
        async with aclosing(answer.deltas()) as deltas:
            async for delta in deltas:
                if delta is not None:
                    choices[delta.index].add(delta)
        assert answer.usage is not None
        return form.whole(choices, answer.usage)

    async def _events(self, asked: Asked, answer: Answer, form: Shaped) -> AsyncGenerator[bytes, None]:
        """The deltas as events. A fault after the first event becomes the last one, and a stream that is whole says so.

        :raises OuzelError: before the first event
        """
        begun = False
        try:
            async with aclosing(self._parts(asked, answer, form)) as parts:
                async for part in parts:
                    if part:
                        begun = True
                        yield part
            if asked.include_usage and answer.usage is not None:
                yield event(form.usage_chunk(answer.usage))
            yield DONE
        except OuzelError as error:
            if not begun:
                raise
            log.warning("request %s broke off: %s", answer.request_id, error)
            yield event(error_body(error))

    async def _parts(self, asked: Asked, answer: Answer, form: Shaped) -> AsyncGenerator[bytes, None]:
        """What each delta adds to a stream."""
        async with aclosing(answer.deltas()) as deltas:
            async for delta in deltas:
                yield PING if delta is None else b"".join(map(event, form.chunks(delta)))


def _server_timing(answer: Answer) -> dict[str, str]:
    """How long the first text took; nothing where a stream began before it."""
    return {} if answer.first_s is None else {"Server-Timing": f"first_token;dur={answer.first_s * 1000:.3f}"}
