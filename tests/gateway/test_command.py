"""`ouzel serve` in a process of its own, with stages in processes of theirs that make no model's sound."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

OUZEL = (sys.executable, "-c", "from ouzel.cli import app; app()")
STAGES = Path(__file__).parents[1] / "stages"
FAKES = ("--no-llm", "--set", "talker.factory=fake_cores:talker", "--set", "code2wav.factory=fake_cores:code2wav")
SPEECH = {"input": "The river keeps its own time.", "response_format": "pcm"}


@contextmanager
def serving(voice: Path, *options: str, **environ: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command and its address, before it is ready."""
    process = subprocess.Popen(
        [*OUZEL, "serve", "--port", "0", "--voice", str(voice), *FAKES, *options],
        env={**os.environ, "PYTHONPATH": str(STAGES), **environ},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"listening on (http://[\d.]+:\d+)", line):
                yield process, found[1]
                break
        else:
            pytest.fail("the server ended before it listened")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def wait_until_ready(address: str) -> None:
    while httpx.get(f"{address}/ready").status_code != 200:
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def test_it_serves_and_stops_soon_with_everything_open(tiny_voice: Path) -> None:
    with serving(tiny_voice) as (process, address):
        wait_until_ready(address)
        assert len(httpx.post(f"{address}/v1/audio/speech", json=SPEECH).content) % 3840 == 0
        events = httpx.post(f"{address}/v1/audio/speech", json={**SPEECH, "stream_format": "sse"}).text.split("\n\n")
        assert json.loads(events[-2].removeprefix("data: "))["usage"]["input_tokens"] > 5
        stages = children_of(process.pid)
        assert len(stages) == 2
        with connect(f"ws{address.removeprefix('http')}/v1/audio/speech/stream") as socket_:
            socket_.send('{"type":"session.config"}')
            socket_.recv()
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
            assert time.monotonic() - began < 5  # the issue's own bound
        assert [pid for pid in stages if alive(pid)] == []


def test_the_manager_hears_ready_once_and_its_variables_stay_here(tiny_voice: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(20)
        with serving(tiny_voice, "--headless", NOTIFY_SOCKET=path, WATCHDOG_USEC="200000") as (process, address):
            heard: list[str] = []
            while sum("WATCHDOG=1" in message for message in heard) < 3:
                heard.append(manager.recv(4096).decode())
                if "READY=1" in heard[-1]:
                    assert httpx.get(f"{address}/ready").status_code == 200
            assert sum("READY=1" in message for message in heard) == 1
            assert heard[0].startswith("STATUS=loading")
            for stage in children_of(process.pid):
                assert b"NOTIFY_SOCKET" not in Path(f"/proc/{stage}/environ").read_bytes()
            page = httpx.get(address, headers={"Accept": "text/html"})
            assert page.headers["content-type"].startswith("text/plain")
            process.send_signal(signal.SIGTERM)
            while "STOPPING=1" not in heard[-1]:
                heard.append(manager.recv(4096).decode())


def test_without_a_key_it_stays_on_this_machine(tiny_voice: Path) -> None:
    command = [*OUZEL, "serve", "--host", "0.0.0.0", "--voice", str(tiny_voice)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 6
    assert done.stderr.startswith("error: gateway.host is '0.0.0.0', which others can reach: set an API key")
