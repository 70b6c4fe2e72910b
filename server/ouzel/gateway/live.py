"""A body that is sent while it is made, to a client that may be slow or leave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ouzel.errors import OuzelError
from ouzel.gateway.gone import ClientGone, unless_gone

__all__ = ["LIVE_HEADERS", "LiveResponse"]

log = logging.getLogger(__name__)

LIVE_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Accept-Ranges": "none"}


class LiveResponse(Response):
    """A chunked body whose first part is there.

    The next part is asked for once this one is taken, so a slow client slows its own stream; one that takes nothing
    for a time is dropped. A fault ends the connection without the last chunk, which every client sees as an error.
    """

    def __init__(
        self,
        first: bytes,
        rest: AsyncGenerator[bytes, None],
        content_type: str,
        headers: Mapping[str, str],
        send_deadline_s: float,
        stopping: asyncio.Event,
    ) -> None:
        super().__init__(headers=dict(headers) | {"Content-Type": content_type})
        del self.headers["content-length"]
        self._first = first
        self._rest = rest
        self._send_deadline_s = send_deadline_s
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = scope.get("state", {}).get("request_id")
        try:
            await unless_gone(receive, self._stopping, self._pump(send))
        except ClientGone:
            log.info("request %s: the client left", request_id)
        except TimeoutError:
            log.warning("request %s: the client took nothing for %g s", request_id, self._send_deadline_s)
        except OuzelError as error:
            log.warning("request %s broke off: %s", request_id, error)
        finally:
            await self._rest.aclose()

    async def _pump(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await self._send(send, self._first)
        async with aclosing(self._rest):
            async for part in self._rest:
                await self._send(send, part)
        await self._send(send, b"", last=True)

    async def _send(self, send: Send, part: bytes, *, last: bool = False) -> None:
        async with asyncio.timeout(self._send_deadline_s):
            await send({"type": "http.response.body", "body": part, "more_body": not last})
