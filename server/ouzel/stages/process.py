"""What a stage's process is before it computes anything: its threads, its cores, and that it dies with its server."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import threading
from collections.abc import Mapping

from ouzel.stages.channel import Channel

__all__ = ["child_environment", "die_with_server", "settle"]

_PR_SET_PDEATHSIG = 1
#: of the supervisor's own business with systemd
_NOT_INHERITED = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


def child_environment(environ: Mapping[str, str], threads: int) -> dict[str, str]:
    """The environment of a stage. Thread counts are read when a library loads, so they are set before Python starts."""
    counts = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"}
    # Threads that spin while they wait take the core that the other stage computes on.
    waiting = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
    inherited = {name: value for name, value in environ.items() if name not in _NOT_INHERITED}
    return {**inherited, **counts, **waiting}


def die_with_server(channel: Channel, server: int) -> None:
    """Never outlive the server, whatever this process is doing.

    The kernel's signal alone is tied to the server's thread, not to its process, and misses a server that died before
    it was asked for; the channel's hang-up alone would wait for a thread that holds the interpreter.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(0)
    threading.Thread(target=_exit_at_hangup, args=(channel.fileno(),), name="guard", daemon=True).start()


def settle(nice: int, cpus: tuple[int, ...] | None) -> None:
    """Take the priority and the cores that the profile gives.

    An interrupt from the terminal goes to the server, which then stops its stages in order.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if nice:
        os.nice(nice)
    if cpus is not None:
        os.sched_setaffinity(0, cpus)


def _exit_at_hangup(descriptor: int) -> None:
    poller = select.poll()
    poller.register(descriptor, select.POLLRDHUP)
    poller.poll()
    os._exit(0)
