"""Reading a request's body within its bounds."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import ClientDisconnect, Request

from ouzel.config.schema import GatewayConfig
from ouzel.errors import BodyTooLargeError, SlowBodyError
from ouzel.gateway.gone import ClientGone
from ouzel.gateway.wishes import parse_json
from ouzel.text.limits import decode_text

__all__ = ["read_body", "read_fields"]


async def read_fields(request: Request, gateway: GatewayConfig) -> dict[str, Any]:
    """A body's JSON object, whatever its content type says: curl calls it a form, and nothing else makes sense here.

    :raises RequestError: when it is none
    :raises BodyTooLargeError, SlowBodyError, ClientGone: as `read_body` does
    """
    body = await read_body(request, gateway.max_body_bytes, gateway.send_deadline_s)
    return parse_json(decode_text(body, param="body"))


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
