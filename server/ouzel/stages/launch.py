"""Starting a stage: as a process, which is the rule, or as a thread of the server, for tests and measurements."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from typing import Protocol

from ouzel.stages.channel import Channel
from ouzel.stages.messages import Setup
from ouzel.stages.process import child_environment
from ouzel.stages.run import run_stage

__all__ = ["Launch", "Launched", "launch_process", "launch_thread"]


class Launched(Protocol):
    """A running stage."""

    channel: Channel

    @property
    def pid(self) -> int:
        """Of its process; the server's own for a thread."""
        ...

    def kill(self) -> None:
        """End it without asking; one that has ended is no fault."""
        ...

    async def wait(self) -> str:
        """How it ended, in words, once it has."""
        ...


class Launch(Protocol):
    """Starts a stage and gives it its setup."""

    def __call__(self, setup: Setup) -> Launched: ...


def launch_process(setup: Setup) -> Launched:
    """A stage in a process of its own."""
    ours, theirs = Channel.pair()
    command = [sys.executable, "-m", "ouzel.stages", str(theirs.fileno()), str(os.getpid())]
    environment = child_environment(os.environ, setup.threads, setup.spin_ms)
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL)
    theirs.close()
    ours.send(setup)
    return _Process(ours, process)


def launch_thread(setup: Setup) -> Launched:
    """A stage in a thread of this process."""
    ours, theirs = Channel.pair()
    ours.send(setup)
    return _Thread(ours, theirs, setup)


class _Process:
    __slots__ = ("_pidfd", "_process", "channel")

    def __init__(self, channel: Channel, process: subprocess.Popen[bytes]) -> None:
        self.channel = channel
        self._process = process
        self._pidfd = os.pidfd_open(process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    async def wait(self) -> str:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._pidfd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._pidfd)
        code = self._process.wait()
        os.close(self._pidfd)
        return f"signal {-code}" if code < 0 else f"exit code {code}"


class _Thread:
    __slots__ = ("_thread", "_theirs", "channel")

    def __init__(self, channel: Channel, theirs: Channel, setup: Setup) -> None:
        self.channel = channel
        self._theirs = theirs
        self._thread = threading.Thread(target=self._run, args=(setup,), name=f"stage {setup.role}", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return os.getpid()

    def kill(self) -> None:
        self.channel.close()

    async def wait(self) -> str:
        await asyncio.to_thread(self._thread.join)
        return "the thread returned"

    def _run(self, setup: Setup) -> None:
        try:
            self._theirs.receive()
            run_stage(self._theirs, setup)
        finally:
            self._theirs.close()
