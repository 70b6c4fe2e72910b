from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from dataclasses import replace

import httpx
import pytest
from fake_speaker import FakeSpeaker
from running import until
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from ouzel.config.schema import DeployConfig
from ouzel.errors import CheckpointError, ConfigError
from ouzel.gateway.serve import bind, serve
from ouzel.gateway.speaker import Health, State


class LoadingSpeaker(FakeSpeaker):
    """Loads until it is told that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.state = Health(State.LOADING, "weights")
        self.loaded = asyncio.Event()
        self.failure: Exception | None = None
        self.left = False

    async def __aenter__(self) -> LoadingSpeaker:
        await self.loaded.wait()
        if self.failure is not None:
            raise self.failure
        self.state = Health(State.READY)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.left = True


def free_port() -> tuple[socket.socket, str]:
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, f"127.0.0.1:{listener.getsockname()[1]}"


async def test_it_answers_while_it_loads_and_stops_with_sockets_and_streams_open() -> None:
    speaker = LoadingSpeaker()
    listener, where = free_port()
    serving = asyncio.create_task(serve(speaker, DeployConfig(), listener))
    async with httpx.AsyncClient(base_url=f"http://{where}") as http:
        assert (await http.get("/ready")).status_code == 503
        speaker.loaded.set()
        await until(lambda: speaker.state.serving)
        assert (await http.get("/ready")).status_code == 200
        speaker.gate.clear()
        speaker.free_chunks = 1
        stream = asyncio.ensure_future(http.post("/v1/audio/speech", json={"input": "a" * 50}))
        queued = asyncio.ensure_future(http.post("/v1/audio/speech", json={"input": "b" * 50, "stream": False}))
        async with connect(f"ws://{where}/v1/audio/speech/stream") as socket_:
            await socket_.send('{"type":"session.config"}')
            await socket_.send(json.dumps({"type": "input.text", "text": "c" * 50}))
            await socket_.send('{"type":"input.done"}')
            await until(lambda: speaker.running == 3)
            began = asyncio.get_running_loop().time()
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(ConnectionClosed):
                while True:
                    await socket_.recv()
            assert socket_.close_code == 1001
        await serving
        # The bound is the issue's own; everything here ends by itself or after its time of grace.
        assert asyncio.get_running_loop().time() - began < 5
        with pytest.raises(httpx.RemoteProtocolError):
            await stream
        assert ((await queued).status_code, "stopping" in (await queued).text) == (503, True)
    assert (speaker.running, speaker.left) == (0, True)


async def test_small_pieces_are_sent_at_once() -> None:
    listener = bind(replace(DeployConfig().gateway, port=0), None)
    serving = asyncio.create_task(serve(LoadingSpeaker(), DeployConfig(), listener))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}") as http:
        await http.get("/health")
    # What the listener has, its connections have from the start.
    assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    os.kill(os.getpid(), signal.SIGTERM)
    await serving


async def test_a_load_that_fails_ends_the_server_with_its_error() -> None:
    speaker = LoadingSpeaker()
    speaker.failure = CheckpointError("model.safetensors is missing")
    speaker.loaded.set()
    with pytest.raises(CheckpointError, match="model.safetensors"):
        await serve(speaker, DeployConfig(), free_port()[0])


async def test_a_signal_in_the_middle_of_loading_ends_it() -> None:
    speaker = LoadingSpeaker()
    listener, where = free_port()
    serving = asyncio.create_task(serve(speaker, DeployConfig(), listener))
    async with httpx.AsyncClient(base_url=f"http://{where}") as http:
        await http.get("/health")
    os.kill(os.getpid(), signal.SIGTERM)
    await serving


def test_a_port_that_is_taken_is_named() -> None:
    listener, where = free_port()
    gateway = replace(DeployConfig().gateway, port=int(where.rpartition(":")[2]))
    with listener, pytest.raises(ConfigError, match=rf"cannot listen on 127.0.0.1 port {gateway.port}: .*in use"):
        bind(gateway, None)


def test_beyond_this_machine_a_key_is_needed() -> None:
    with pytest.raises(ConfigError, match="set an API key"):
        bind(replace(DeployConfig().gateway, host="0.0.0.0"), None)
