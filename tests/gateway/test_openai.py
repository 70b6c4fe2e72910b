"""The `openai` package as its users call it, unmodified."""

from __future__ import annotations

import base64
import json

import openai
import pytest
from fake_speaker import frames_of, tone
from openai import AsyncOpenAI
from running import Running, running

from ouzel.audio.wav import pcm16
from ouzel.errors import BusyError, EngineError

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "The river keeps its own time."
ASKED = {"model": "gpt-4o-mini-tts", "voice": "alloy", "input": TEXT}


def client_of(server: Running, key: str = "unused") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=key, max_retries=0)


def samples() -> bytes:
    return pcm16(tone(TEXT, 0, frames_of(TEXT)))


async def test_create(server: Running) -> None:
    async with client_of(server) as client:
        reply = await client.audio.speech.create(**ASKED, response_format="pcm", speed=1.0)
        assert reply.content == samples()


async def test_with_streaming_response(server: Running) -> None:
    async with client_of(server) as client:
        wish = {**ASKED, "response_format": "wav"}
        async with client.audio.speech.with_streaming_response.create(**wish) as reply:
            body = b"".join([part async for part in reply.iter_bytes(7)])
        assert body[44:] == samples()


async def test_events(server: Running) -> None:
    async with client_of(server) as client:
        wish = {**ASKED, "response_format": "pcm", "stream_format": "sse", "extra_body": {"timing": True}}
        async with client.audio.speech.with_streaming_response.create(**wish) as reply:
            lines = [line async for line in reply.iter_lines() if line]
        *deltas, done = [json.loads(line.removeprefix("data: ")) for line in lines]
        assert b"".join(base64.b64decode(delta["audio"]) for delta in deltas) == samples()
        assert all("phases_ms" in delta["timing"] for delta in deltas)
        assert (done["type"], done["usage"]["output_tokens"]) == ("speech.audio.done", 16 * frames_of(TEXT))


async def test_models(server: Running) -> None:
    async with client_of(server) as client:
        assert [model.id async for model in client.models.list()] == ["ouzel-fake"]


async def test_errors_come_as_the_packages_own(server: Running) -> None:
    async with client_of(server) as client:
        with pytest.raises(openai.BadRequestError, match="'nobody' is no voice here") as caught:
            await client.audio.speech.create(**{**ASKED, "voice": "nobody"})
        assert (caught.value.param, caught.value.type) == ("voice", "invalid_request_error")
        server.speaker.refusal = BusyError("16 requests wait already")
        with pytest.raises(openai.RateLimitError, match="16 requests wait"):
            await client.audio.speech.create(**ASKED)
        server.speaker.refusal, server.speaker.fault = None, EngineError("the talker died")
        with pytest.raises(openai.APIError):
            await client.audio.speech.create(**ASKED)


async def test_a_wrong_key_is_an_authentication_error() -> None:
    async with running(key="right") as server:
        async with client_of(server, "wrong") as client:
            with pytest.raises(openai.AuthenticationError, match="the API key is wrong"):
                await client.audio.speech.create(**ASKED)
        async with client_of(server, "right") as client:
            assert (await client.audio.speech.create(**ASKED, response_format="pcm")).content == samples()
