"""What every request passes on its way in: a number, whose page it came from, the key, and how many are inside."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ouzel.errors import AuthError, BusyError
from ouzel.gateway.api_key import ApiKey
from ouzel.gateway.metrics import Metrics
from ouzel.gateway.replies import error_reply, http_error_reply

__all__ = ["CountedDoor", "KeyDoor", "MethodDoor", "OriginDoor", "RequestIdDoor"]

log = logging.getLogger(__name__)

_GUARDED = "/v1/"
_PROBED = ("/health", "/ready", "/metrics")
_EXPOSED = "X-Request-Id, Server-Timing, X-Finish-Reason, Warning, Retry-After"
_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)


class RequestIdDoor:
    """Gives each request a number, or keeps the client's own, and says how it ended in the log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        began, status = time.monotonic(), 0

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.accept", "websocket.http.response.start"):
                status = message.get("status", 101)
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        finally:
            what = scope.get("method", "WebSocket")
            took = time.monotonic() - began
            # Without its query: that may hold a key. Probes come every few seconds and are no news.
            level = logging.DEBUG if scope["path"] in _PROBED else logging.INFO
            log.log(level, "%s %s %s %d in %.3f s", request_id, what, scope["path"], status, took)


class OriginDoor:
    """Cross-origin rules: pages of others may call only where the settings name them.

    A browser sends a WebSocket, and a POST without a special header, to any address a page names, without asking
    first. So the origin is checked here and not left to the browser.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] != "lifespan" else Headers()
        origin = headers.get("origin")
        if origin is None or urlsplit(origin).netloc == headers.get("host"):
            await self._app(scope, receive, send)
            return
        allowed = "*" in self._origins or origin in self._origins
        if scope.get("method") == "OPTIONS" and "access-control-request-method" in headers:
            await self._preflight(origin if allowed else None, headers)(scope, receive, send)
            return
        if not allowed:
            message = f"pages of {origin} may not call; gateway.cors_origins lists those that may"
            await http_error_reply(403, message)(scope, receive, send)
            return

        async def send_allowed(message: Message) -> None:
            if message["type"] == "http.response.start":
                reply = MutableHeaders(scope=message)
                reply["Access-Control-Allow-Origin"] = origin
                reply["Access-Control-Expose-Headers"] = _EXPOSED
                reply.add_vary_header("Origin")
            await send(message)

        await self._app(scope, receive, send_allowed)

    def _preflight(self, origin: str | None, asked: Headers) -> Response:
        """200 in any case: a browser reads the headers, and there is no key in a preflight."""
        if origin is None:
            return Response(headers={"Vary": "Origin"})
        return Response(
            headers={
                "Access-Control-Allow-Origin": origin,
                "Access-Control-Allow-Methods": "GET, HEAD, POST, OPTIONS",
                "Access-Control-Allow-Headers": asked.get("access-control-request-headers", "*"),
                "Access-Control-Max-Age": "600",
                "Vary": "Origin",
            }
        )


class KeyDoor:
    """Lets nobody to `/v1` without the key, where there is one; a WebSocket is refused before it is accepted."""

    def __init__(self, app: ASGIApp, key: ApiKey | None) -> None:
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._key is None or scope["type"] == "lifespan" or not scope["path"].startswith(_GUARDED):
            await self._app(scope, receive, send)
        elif (given := _given_key(scope)) is None:
            error = AuthError("an API key is needed: send it as Authorization: Bearer KEY or X-API-Key")
            await error_reply(error)(scope, receive, send)
        elif not self._key.matches(given):
            await error_reply(AuthError("the API key is wrong"))(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _given_key(scope: Scope) -> str | None:
    headers = Headers(scope=scope)
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return _as_sent(token.strip())
    if (key := headers.get("x-api-key")) is not None:
        return _as_sent(key)
    if scope["type"] == "websocket":
        # A browser can set no header on a WebSocket.
        return next(iter(parse_qs(scope["query_string"].decode("latin-1")).get("api_key", [])), None)
    return None


def _as_sent(value: str) -> str:
    """A header's letters; HTTP reads its bytes as Latin-1, clients mostly mean UTF-8."""
    return value.encode("latin-1").decode("utf-8", "surrogateescape")


class CountedDoor:
    """Lets so many speech connections in at once and no more."""

    def __init__(self, app: ASGIApp, most: int, metrics: Metrics) -> None:
        self._app = app
        self._most = most
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or not scope["path"].startswith("/v1/audio/speech"):
            await self._app(scope, receive, send)
            return
        if self._metrics.sockets >= self._most:
            error = BusyError(f"{self._most} speech connections are open, as many as gateway.max_sockets allows")
            await error_reply(error)(scope, receive, send)
            return
        self._metrics.sockets += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._metrics.sockets -= 1


class MethodDoor:
    """HEAD wherever GET works, without the body; OPTIONS everywhere."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope.get("method")
        if method == "OPTIONS":
            await Response(headers={"Allow": "GET, HEAD, POST, OPTIONS"})(scope, receive, send)
        elif method == "HEAD":
            await self._app({**scope, "method": "GET"}, receive, _headless(send))
        else:
            await self._app(scope, receive, send)


def _headless(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return send_head
