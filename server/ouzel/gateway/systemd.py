"""What systemd wants to hear (sd_notify(3)), and the socket that it may hand over. Nothing at all outside systemd."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress

from ouzel.gateway.speaker import Speaker, State

__all__ = ["Notifier", "keep_informed", "passed_socket"]

_FIRST_PASSED = 3  # SD_LISTEN_FDS_START
_LOADING_POLL_S = 0.5
_EXTEND_S = 30  # a load that says something at least this often may take as long as it needs


class Notifier:
    """Messages to the service manager."""

    def __init__(self, address: str | None, watchdog_s: float | None = None) -> None:
        """:param address: of NOTIFY_SOCKET; None says nothing to nobody"""
        self._address = address.replace("@", "\0", 1) if address and address.startswith("@") else address
        #: within which time it wants a sign of life
        self.watchdog_s = watchdog_s

    @classmethod
    def from_environ(cls, environ: MutableMapping[str, str] = os.environ) -> Notifier:
        """The manager of this process; its variables are taken out, so that no child speaks in our name."""
        address = environ.pop("NOTIFY_SOCKET", None)
        usec, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        ours = not pid or pid == str(os.getpid())
        return cls(address, int(usec) / 1e6 if usec.isdecimal() and ours else None)

    def send(self, *lines: str) -> None:
        """One message. A manager that doesn't listen is no fault of the service."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            with suppress(OSError):
                sender.sendto("\n".join(lines).encode(), self._address)


async def keep_informed(
    notifier: Notifier, speaker: Speaker, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Say what is loading, then READY once, then feed the watchdog while the stages move or have nothing to do."""
    said = ""
    while not (health := speaker.health()).serving:
        status = f"STATUS={health.state.value}: {health.detail}"
        if health.state is State.LOADING:
            notifier.send(status, f"EXTEND_TIMEOUT_USEC={_EXTEND_S * 1_000_000}")
        await sleep(_LOADING_POLL_S)
    notifier.send("READY=1", "STATUS=ready")
    while True:
        health = speaker.health()
        status = f"STATUS={health.state.value}: {health.detail}" if health.detail else f"STATUS={health.state.value}"
        if status != said:
            said = status
            notifier.send(status)
        if health.moving:
            notifier.send("WATCHDOG=1")
        await sleep((notifier.watchdog_s or _EXTEND_S) / 2)


def passed_socket(environ: MutableMapping[str, str] = os.environ) -> socket.socket | None:
    """The listening socket of socket activation; None where there is none."""
    count, pid = environ.pop("LISTEN_FDS", ""), environ.pop("LISTEN_PID", "")
    environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or count in ("", "0"):
        return None
    os.set_inheritable(_FIRST_PASSED, False)
    return socket.socket(fileno=_FIRST_PASSED)
