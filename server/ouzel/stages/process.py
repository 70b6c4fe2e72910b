"""What a stage's process is before it computes anything: its threads, its cores, and that it dies with its server."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sysconfig
import threading
from collections.abc import Mapping
from pathlib import Path

from ouzel.stages.channel import Channel

__all__ = ["child_environment", "die_with_server", "settle"]

_PR_SET_PDEATHSIG = 1
#: of the supervisor's own business with systemd
_NOT_INHERITED = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_LIBRARIES = Path(sysconfig.get_path("data")) / "lib"


def child_environment(
    environ: Mapping[str, str], threads: int, spin_ms: int = 0, libraries: Path = _LIBRARIES
) -> dict[str, str]:
    """The environment of a stage. Thread counts are read when a library loads, so they are set before Python starts.

    :param spin_ms: how long a thread waits awake for the others; only Intel's OpenMP can be told, so without it
        (it comes with vLLM, on x86) threads sleep at once, as they do with 0.
    :param libraries: where packages put shared libraries
    """
    counts = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"}
    inherited = {name: value for name, value in environ.items() if name not in _NOT_INHERITED}
    openmp = libraries / "libiomp5.so"
    # The loader takes a blank or a colon in a path for the end of it.
    if spin_ms and threads > 1 and openmp.exists() and not set(" :") & set(str(openmp)):
        # Loaded first, it also takes the place of the libgomp that torch brings.
        preload = ":".join(filter(None, (str(openmp), environ.get("LD_PRELOAD"))))
        inherited.pop("OMP_WAIT_POLICY", None)  # Intel's reads it too
        return {**inherited, **counts, "LD_PRELOAD": preload, "KMP_BLOCKTIME": str(spin_ms)}
    # Threads that spin while they wait take the core that the other stage computes on.
    return {**inherited, **counts, "OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}


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
