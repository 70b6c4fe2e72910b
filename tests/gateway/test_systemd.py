from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_speaker import FakeSpeaker

from ouzel.gateway.speaker import Health, State
from ouzel.gateway.systemd import Notifier, keep_informed, passed_socket

UNIT = Path(__file__).parents[2] / "deploy/systemd/ouzel.service"


class Manager:
    """A service manager as far as sd_notify(3) goes."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.setblocking(False)

    def heard(self) -> list[dict[str, str]]:
        """The messages since the last time, each by its fields."""
        found = []
        while True:
            try:
                message = self._socket.recv(4096).decode()
            except BlockingIOError:
                return found
            found.append(dict(line.split("=", 1) for line in message.splitlines()))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    one = Manager(str(tmp_path / "notify"))
    yield one
    one.close()


class Clock:
    """A sleep that a test lets end."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._tick = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        self._tick.clear()
        await self._tick.wait()

    async def tick(self) -> None:
        self._tick.set()
        for _ in range(3):
            await asyncio.sleep(0)


async def test_from_loading_to_a_stage_that_hangs(tmp_path: Path, manager: Manager) -> None:
    speaker, clock = FakeSpeaker(), Clock()
    speaker.state = Health(State.LOADING, "weights 1/3")
    notifier = Notifier(str(tmp_path / "notify"), watchdog_s=20)
    task = asyncio.create_task(keep_informed(notifier, speaker, clock.sleep))
    await asyncio.sleep(0)
    assert manager.heard() == [{"STATUS": "loading: weights 1/3", "EXTEND_TIMEOUT_USEC": "30000000"}]
    speaker.state = Health(State.READY)
    await clock.tick()
    assert manager.heard() == [{"READY": "1", "STATUS": "ready"}, {"STATUS": "ready"}, {"WATCHDOG": "1"}]
    assert clock.asked[-1] == 10
    await clock.tick()
    assert manager.heard() == [{"WATCHDOG": "1"}]
    speaker.state = Health(State.DEGRADED, "the talker is started again", moving=False)
    await clock.tick()
    assert manager.heard() == [{"STATUS": "degraded: the talker is started again"}]
    task.cancel()


def test_the_manager_is_found_and_kept_from_children(tmp_path: Path, manager: Manager) -> None:
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid())}
    notifier = Notifier.from_environ(environ)
    assert (notifier.watchdog_s, environ) == (4, {})
    notifier.send("STOPPING=1")
    assert manager.heard() == [{"STOPPING": "1"}]


def test_a_watchdog_of_another_process_is_not_ours() -> None:
    assert Notifier.from_environ({"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": "1"}).watchdog_s is None


def test_an_abstract_address_works() -> None:
    name = f"ouzel-test-{os.getpid()}"
    manager = Manager(f"\0{name}")
    Notifier(f"@{name}").send("READY=1")
    assert manager.heard() == [{"READY": "1"}]
    manager.close()


@pytest.mark.parametrize("address", [None, "", "/nowhere/at/all"])
def test_without_a_manager_nothing_happens(address: str | None) -> None:
    Notifier(address).send("READY=1")


def test_a_socket_of_another_process_is_not_taken() -> None:
    environ = {"LISTEN_FDS": "1", "LISTEN_PID": "1"}
    assert passed_socket(environ) is None
    assert environ == {}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "ouzel.service"
    # The program needn't be installed where the unit is looked at.
    unit.write_text(UNIT.read_text().replace("/opt/ouzel/bin/ouzel", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "ouzel.service" in line]) == (0, [])
