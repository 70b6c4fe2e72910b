"""What the README tells a newcomer to type does what it says."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
import wave
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```bash\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]
MAKE = [line.split()[1] for line in COMMANDS if line.startswith("make ")]
SPEAKING = [line for line in COMMANDS if "ouzel say" in line]
SERVED = [line for line in COMMANDS if line.split()[0] in ("curl", "ouzel-client")]
OTHERS = [line for line in COMMANDS if line.split()[0] not in ("make", "export") and line not in SPEAKING + SERVED]
# Started by name as a newcomer does, from the environment that runs the tests.
ENVIRON = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_the_set_up_is_two_commands() -> None:
    assert MAKE[:2] == ["demo", "test"]
    assert not OTHERS, "a command of a kind that no test here runs"


@pytest.mark.parametrize("target", sorted({*MAKE, "check", "demo-speech", "serve", "voice"}))
def test_make_knows_its_targets(target: str) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(["make", "-n", target], cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_ci_runs_the_readmes_test_command() -> None:
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    assert "OUZEL_NO_SKIP=1 make test" in lines


@pytest.mark.timeout(120)
@pytest.mark.parametrize("command", SPEAKING)
def test_speaking_writes_what_it_says(tmp_path: Path, command: str) -> None:
    shell = ["bash", "-euo", "pipefail", "-c", command]
    done = subprocess.run(shell, cwd=tmp_path, env=ENVIRON, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = re.findall(r"-o (\S+)", command)
    with wave.open(str(tmp_path / file)) as reader:
        assert reader.getframerate() == 24_000
        assert reader.getnframes() >= 2 * 1920
    assert "first audio" in done.stdout and "real-time factor" in done.stdout
    assert ("of 80 ms" in done.stdout) == ("--step-stats" in command)


@pytest.mark.llm
@pytest.mark.timeout(240)
def test_a_server_answers_the_clients(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    uncompiled = ["--set", "llm.eager=true"]  # says the same, and starts sooner
    options = ["--port", str(port), "--llm", "smollm2", *uncompiled, "--log-level", "WARNING"]
    server = subprocess.Popen(["ouzel", "serve", *options], env=ENVIRON)
    said = {}
    try:
        wait_for_both(port)
        for command in SERVED:
            there = command.replace("localhost:8080", f"localhost:{port}")
            if there.startswith("ouzel-client"):
                there += f" --url http://127.0.0.1:{port}"
            shell = ["bash", "-euo", "pipefail", "-c", there]
            done = subprocess.run(shell, cwd=tmp_path, env=ENVIRON, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            said[command] = done.stdout
    finally:
        server.terminate()
        assert server.wait(30) == 0
    answers = [text for command, text in said.items() if "capital of France" in command]
    assert len(answers) == 2 and all("Paris" in text for text in answers)
    assert (tmp_path / "hello.mp3").read_bytes()[:3] in (b"ID3", b"\xff\xfb\x90", b"\xff\xf3\x84")
    for file in ("hello.wav", "answer.wav"):
        with wave.open(str(tmp_path / file)) as reader:
            assert reader.getnframes() >= 10 * 1920


def wait_for_both(port: int) -> None:
    """Until the server speaks and writes; the test's own limit ends a wait for nothing."""
    while True:
        time.sleep(0.3)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as reply:
                health = json.load(reply)
        except OSError:
            continue
        assert health["language"]["state"] != "failed", health["language"]
        if (health["state"], health["language"]["state"]) == ("ready", "ready"):
            return
