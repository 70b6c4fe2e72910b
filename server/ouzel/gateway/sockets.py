"""`/v1/audio/speech/stream`: the session of a WebSocket."""

from __future__ import annotations

import asyncio
import logging
from uuid import uuid4

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from ouzel.config.schema import DeployConfig
from ouzel.errors import OuzelError
from ouzel.gateway.answer import AnswerDesk
from ouzel.gateway.dialect import Message
from ouzel.gateway.replies import error_reply
from ouzel.gateway.session import Session
from ouzel.gateway.speech import Desk

__all__ = ["SocketEndpoint"]

log = logging.getLogger(__name__)

_TRY_AGAIN = 1013


class SocketEndpoint:
    """The endpoint, and what all its sockets share."""

    def __init__(self, desk: Desk, answers: AnswerDesk | None, config: DeployConfig, stopping: asyncio.Event) -> None:
        """:param answers: None where no language model is served"""
        self._desk = desk
        self._answers = answers
        self._config = config
        self._stopping = stopping

    async def __call__(self, socket: WebSocket) -> None:
        try:
            self._desk.check_ready()
        except OuzelError as error:
            await error_reply(error)(socket.scope, socket.receive, socket.send)
            return
        # Browsers and some clients drop a connection whose subprotocol isn't confirmed.
        offered = socket.scope.get("subprotocols") or [None]
        await socket.accept(subprotocol=offered[0])
        await self._serve(socket)

    async def _serve(self, socket: WebSocket) -> None:
        async def receive() -> Message:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code", 1005))
            return message["text"] if message.get("text") is not None else message["bytes"]

        async def send(message: Message) -> None:
            await (socket.send_text(message) if isinstance(message, str) else socket.send_bytes(message))

        session_id = uuid4().hex
        try:
            code = await Session(
                self._desk, self._answers, self._config, session_id, receive, send, self._stopping
            ).run()
        except WebSocketDisconnect:
            log.info("session %s: the client left", session_id)
            return
        except TimeoutError:
            log.warning("session %s: the client took nothing for too long", session_id)
            code = _TRY_AGAIN
        if socket.application_state is WebSocketState.CONNECTED:
            await self._close(socket, code)

    async def _close(self, socket: WebSocket, code: int) -> None:
        try:
            async with asyncio.timeout(1):
                await socket.close(code)
        except (TimeoutError, WebSocketDisconnect, RuntimeError):
            # Its buffer is full, or it has left meanwhile: there is nobody to say goodbye to.
            log.info("a client left without a goodbye")
