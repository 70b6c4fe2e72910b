"""Speech from any server that speaks OpenAI's form, over plain HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from ouzel_client.errors import ClientError, ServerError, UnreachableError
from ouzel_client.session import Audio, Done, Event, Started
from ouzel_client.wav import WavStream

__all__ = ["speak_over_http"]

_PIECE = 8192
_TIMEOUT_S = 60.0
_FRAME_MS = 80


async def speak_over_http(
    url: str, text: str, *, api_key: str | None = None, voice: str = "alloy", model: str = "tts-1", **fields: Any
) -> AsyncGenerator[Event, None]:
    """Say a text; the events are those of a session, with PCM as audio.

    :raises UnreachableError: when nobody answers there, or the audio broke off
    :raises ServerError: when the server refuses
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    body = {"model": model, "voice": voice, "input": text, "response_format": "wav"}
    body |= {name: value for name, value in fields.items() if value is not None}
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "localhost", parts.port, timeout=_TIMEOUT_S)
    path = f"{parts.path.rstrip('/').removesuffix('/v1')}/v1/audio/speech"
    try:
        reply = await asyncio.to_thread(_ask, connection, path, json.dumps(body), headers)
        stream, audio_bytes = WavStream(), 0
        while piece := await asyncio.to_thread(reply.read1, _PIECE):
            samples = stream.feed(piece)
            if not samples:
                continue
            if not audio_bytes:
                yield Started("pcm", stream.sample_rate)
            audio_bytes += len(samples)
            yield Audio(samples)
        audio_ms = 500 * audio_bytes / (stream.sample_rate or 1)
        yield Done("stop", round(audio_ms / _FRAME_MS), audio_ms)
    except (OSError, HTTPException) as error:
        raise UnreachableError(f"{url}: {error or type(error).__name__}") from error
    finally:
        connection.close()


def _ask(connection: HTTPConnection, path: str, body: str, headers: dict[str, str]) -> HTTPResponse:
    connection.request("POST", path, body, headers)
    reply = connection.getresponse()
    if reply.status != 200:
        raise _refusal(reply.status, reply.read())
    return reply


def _refusal(status: int, body: bytes) -> ClientError:
    try:
        return ServerError.of(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return UnreachableError(f"the server answered with HTTP status {status}")
