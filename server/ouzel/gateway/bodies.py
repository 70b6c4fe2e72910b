"""Reading a request's body within its bounds."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from ouzel.errors import BodyTooLargeError, SlowBodyError
from ouzel.gateway.gone import ClientGone

__all__ = ["read_body"]


async def read_body(request: Request, most_bytes: int, within_s: float) -> bytes:
    """:raises BodyTooLargeError, SlowBodyError, ClientGone: each before more than `most_bytes` are held."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most_bytes:
        raise BodyTooLargeError(f"the body has {declared} bytes; at most {most_bytes} are taken")
    body = bytearray()
    try:
        async with asyncio.timeout(within_s):
            async for part in request.stream():
                body += part
                if len(body) > most_bytes:
                    raise BodyTooLargeError(f"the body has more than the {most_bytes} bytes that are taken")
    except TimeoutError:
        raise SlowBodyError(f"the body didn't come within {within_s:g} s") from None
    except ClientDisconnect:
        raise ClientGone from None
    return bytes(body)
