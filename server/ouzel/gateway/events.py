"""Server-sent events, and speech as such, in OpenAI's form."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from ouzel.errors import OuzelError
from ouzel.gateway.merge import PING, merged
from ouzel.gateway.replies import error_body
from ouzel.gateway.speech import Piece, Speech

__all__ = ["event", "speech_events"]

_CODEBOOKS = 16


async def speech_events(speech: Speech, pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[bytes, None]:
    """One delta for each piece with bytes, then the end with its usage.

    `output_tokens` are codec frames × 16 codebooks. A fault after the first event becomes an event itself.

    :raises OuzelError: before the first event
    """
    begun = False
    try:
        async with aclosing(merged([pieces])) as parts:
            async for part in parts:
                if part is None:
                    begun = True
                    yield PING
                elif part[1].data:
                    begun = True
                    yield event(_delta(speech, part[1]))
        yield event(_done(speech, await speech.count_tokens()))
    except OuzelError as error:
        if not begun:
            raise
        yield event(error_body(error))


def event(content: Mapping[str, object]) -> bytes:
    """One event. In ASCII: some clients also break lines at letters that only Unicode calls line ends."""
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


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
