"""A real server on a free port, around the fake speaker and the fake language model, in the test's own loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import httpx
from fake_language import FakeLanguage
from fake_speaker import FakeSpeaker

from ouzel.config.schema import DeployConfig
from ouzel.gateway.api_key import ApiKey
from ouzel.gateway.app import create_app
from ouzel.gateway.serve import SpeechServer


@dataclass
class Running:
    speaker: FakeSpeaker
    http: httpx.AsyncClient
    port: int
    server: SpeechServer = field(repr=False)
    #: None where the server has none
    lm: FakeLanguage | None = None

    @property
    def language(self) -> FakeLanguage:
        assert self.lm is not None
        return self.lm

    @property
    def socket_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/audio/speech/stream"


@asynccontextmanager
async def running(
    config: DeployConfig | None = None,
    *,
    key: str | None = None,
    speaker: FakeSpeaker | None = None,
    language: FakeLanguage | None = None,
) -> AsyncGenerator[Running, None]:
    """The server, until the block ends."""
    speaker = speaker or FakeSpeaker()
    stopping = asyncio.Event()
    keyed = ApiKey(key) if key else None
    app = create_app(speaker, config or DeployConfig(), key=keyed, stopping=stopping, language=language)
    server = SpeechServer(app, stopping)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    task = asyncio.create_task(server.serve([listener]))
    await until(lambda: server.started)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as http:
            yield Running(speaker, http, port, server, language)
    finally:
        server.stop()
        await task


def with_limits(**limits: object) -> DeployConfig:
    config = DeployConfig()
    return replace(config, limits=replace(config.limits, **limits))


def with_gateway(**settings: object) -> DeployConfig:
    config = DeployConfig()
    return replace(config, gateway=replace(config.gateway, **settings))


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until it holds; the test's own time limit is the only clock."""
    while not condition():  # noqa: ASYNC110 - what is waited for is the program's own state
        await asyncio.sleep(0.001)
