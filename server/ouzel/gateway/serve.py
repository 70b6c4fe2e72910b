"""Running the server: open the port, load, say so, and stop soon when told to."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Protocol

import uvicorn
from starlette.types import ASGIApp

from ouzel.config.schema import DeployConfig, GatewayConfig
from ouzel.errors import ConfigError
from ouzel.gateway.api_key import ApiKey, check_bind
from ouzel.gateway.app import create_app
from ouzel.gateway.language import LanguageModel
from ouzel.gateway.speaker import Speaker
from ouzel.gateway.systemd import Notifier, keep_informed

__all__ = ["LivingSpeaker", "SpeechServer", "bind", "serve"]

log = logging.getLogger(__name__)

_LONGEST_GRACE_S = 2  # sockets leave at once, requests after GRACE_S: this is for what hangs
_PING_S, _PONG_S = 20.0, 60.0  # far above the longest step, so that a busy server loses no healthy client
_LONGEST_MESSAGE = 1 << 20


class LivingSpeaker(Speaker, AbstractAsyncContextManager[Any], Protocol):
    """A speaker that loads when entered and ends when left."""


class SpeechServer(uvicorn.Server):
    """uvicorn that tells its sockets before it closes, and doesn't wait for ever."""

    def __init__(self, app: ASGIApp, stopping: asyncio.Event) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                ws="websockets-sansio",
                ws_max_size=_LONGEST_MESSAGE,
                ws_ping_interval=_PING_S,
                ws_ping_timeout=_PONG_S,
                ws_per_message_deflate=False,  # samples don't compress
                timeout_graceful_shutdown=_LONGEST_GRACE_S,
                access_log=False,  # has whole addresses in it, and they may hold a key
                log_config=None,
                log_level="warning",
                server_header=False,
            )
        )
        self._stopping = stopping

    def stop(self) -> None:
        """Begin to stop; a second time, wait for nobody."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._stopping.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        # uvicorn would raise the signal again after its own end, before the stages had theirs.
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for one in signals:
            loop.add_signal_handler(one, self.stop)
        try:
            yield
        finally:
            for one in signals:
                loop.remove_signal_handler(one)


def bind(gateway: GatewayConfig, key: ApiKey | None) -> socket.socket:
    """The listening socket.

    :raises ConfigError: when the address is taken, isn't ours, or would be open to others without a key
    """
    check_bind(gateway.host, key, insecure=gateway.insecure)
    family = socket.AF_INET6 if ":" in gateway.host else socket.AF_INET
    try:
        return socket.create_server((gateway.host, gateway.port), family=family)
    except OSError as error:
        where = f"{gateway.host} port {gateway.port}"
        raise ConfigError(f"gateway.port: cannot listen on {where}: {error.strerror}", param="gateway.port") from error


async def serve(
    speaker: LivingSpeaker,
    config: DeployConfig,
    listener: socket.socket,
    *,
    key: ApiKey | None = None,
    notifier: Notifier | None = None,
    page: bool = True,
    language: LanguageModel | None = None,
) -> None:
    """Serve until a signal comes. The port is open while the speaker loads; until then requests get a 503.

    :param page: whether browsers get the demo page
    :param language: None where no text is served
    :raises OuzelError: what the speaker raised when it loaded
    """
    stopping, served = asyncio.Event(), asyncio.Event()
    app = create_app(speaker, config, key=key, stopping=stopping, page=page, language=language)
    server = SpeechServer(app, stopping)
    notifier = notifier or Notifier(None)
    # asyncio does this only for sockets that name their protocol; without, a small piece waits 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # which its connections inherit

    loaded = asyncio.Event()

    async def live() -> None:
        try:
            async with speaker:
                loaded.set()
                await served.wait()
        finally:
            server.stop()

    async def take_leave() -> None:
        await stopping.wait()
        informing.cancel()
        notifier.send("STOPPING=1", "STATUS=stopping")

    life = asyncio.create_task(live())
    informing = asyncio.create_task(keep_informed(notifier, speaker))
    leaving = asyncio.create_task(take_leave())
    try:
        host, port = listener.getsockname()[:2]
        log.info("listening on http://%s:%d", f"[{host}]" if ":" in host else host, port)
        await server.serve([listener])
    finally:
        stopping.set()
        served.set()
        if not loaded.is_set() and not life.done():
            life.cancel()  # told to stop in the middle of loading
        await asyncio.gather(informing, leaving, return_exceptions=True)
    await asyncio.wait({life})
    if not life.cancelled():
        life.result()
