"""Speech as server-sent events, in OpenAI's form."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Mapping

from ouzel.errors import OuzelError
from ouzel.gateway.replies import error_body
from ouzel.gateway.speech import Piece, Speech

__all__ = ["speech_events"]

_CODEBOOKS = 16
#: Keeps proxies from closing a stream that waits for its turn.
_PING_S = 15.0
_PING = b": ping\n\n"


async def speech_events(speech: Speech, pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[bytes, None]:
    """One delta for each piece with bytes, then the end with its usage.

    `output_tokens` are codec frames × 16 codebooks. A fault after the first event becomes an event itself.

    :raises OuzelError: before the first event
    """
    begun = False
    pending = asyncio.ensure_future(_next(pieces))
    try:
        while True:
            await asyncio.wait({pending}, timeout=_PING_S)
            if not pending.done():
                begun = True
                yield _PING
                continue
            if (piece := pending.result()) is None:
                break
            pending = asyncio.ensure_future(_next(pieces))
            if piece.data:
                begun = True
                yield _event(_delta(speech, piece))
        yield _event(_done(speech, await speech.count_tokens()))
    except OuzelError as error:
        if not begun:
            raise
        yield _event(error_body(error))
    finally:
        pending.cancel()
        await asyncio.gather(pending, return_exceptions=True)
        await pieces.aclose()


async def _next(pieces: AsyncGenerator[Piece, None]) -> Piece | None:
    return await anext(pieces, None)


def _delta(speech: Speech, piece: Piece) -> dict[str, object]:
    delta: dict[str, object] = {"type": "speech.audio.delta", "audio": base64.b64encode(piece.data).decode()}
    return delta | {"timing": piece.timing.to_json()} if speech.wish.timing else delta


def _done(speech: Speech, given: int) -> dict[str, object]:
    made = speech.frames * _CODEBOOKS
    return {
        "type": "speech.audio.done",
        "usage": {"input_tokens": given, "output_tokens": made, "total_tokens": given + made},
        "finish_reason": speech.end.reason.value if speech.end else None,
    }


def _event(content: Mapping[str, object]) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"
