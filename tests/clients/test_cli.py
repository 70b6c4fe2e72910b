from __future__ import annotations

import asyncio
import subprocess
import sys
import wave
from pathlib import Path

import pytest
from command import client
from fake_speaker import frames_of, tone
from running import Running, until

from ouzel.audio.wav import pcm16
from ouzel.errors import BusyError
from ouzel.gateway.speaker import Health, State

TEXT = "The river keeps its own time."


def samples_of(path: Path) -> bytes:
    with wave.open(str(path)) as reader:
        return reader.readframes(reader.getnframes())


@pytest.mark.parametrize("more", [(), ("--http",)])
async def test_saving_needs_no_sound_library(server: Running, tmp_path: Path, more: tuple[str, ...]) -> None:
    path = tmp_path / "a.wav"
    code, said = await client(server, "speak", TEXT, "--save", str(path), *more)
    assert (code, said) == (0, "")
    assert samples_of(path) == pcm16(tone(TEXT, 0, frames_of(TEXT)))


async def test_a_suffix_asks_for_its_format(server: Running, tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    assert (await client(server, "speak", TEXT, "--save", str(path)))[0] == 0
    assert path.read_bytes().startswith(b"fLaC")
    code, said = await client(server, "speak", TEXT, "--save", str(tmp_path / "a.txt"))
    assert (code, "valid are .wav, .pcm" in said) == (2, True)


async def test_standard_input_is_spoken(server: Running, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    code, _ = await client(server, "speak", "--save", str(path), stdin="\ufeffOne für all. Two.".encode())
    assert code == 0
    assert server.speaker.pieces == ["One für all. ", "Two."]


@pytest.mark.parametrize("before", [b"", b"A sentence. "])
async def test_what_is_not_utf8_is_said(server: Running, tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "a.wav"
    code, said = await client(server, "speak", "-", "--save", str(path), stdin=before + b"caf\xe9")
    assert code == 2
    assert f"the text is not UTF-8: byte 0xE9 at offset {len(before) + 3}" in said
    assert "Traceback" not in said


async def test_timing_is_told(server: Running, tmp_path: Path) -> None:
    code, said = await client(server, "speak", TEXT, "--save", str(tmp_path / "a.wav"), "--timing")
    lines = said.splitlines()
    assert code == 0
    assert lines[0].startswith("frame    0 +2 ")
    assert "backbone 16.0" in lines[0]
    assert any(line.split()[0] == "backbone" and line.endswith("10.0 %") for line in lines)
    assert f"{frames_of(TEXT)} frames" in lines[-1]


async def test_it_waits_for_a_server_that_loads(server: Running, tmp_path: Path) -> None:
    server.speaker.state = Health(State.LOADING)
    path = tmp_path / "a.wav"
    waiting = asyncio.ensure_future(client(server, "speak", TEXT, "--save", str(path), "--wait", "50"))
    await until(lambda: server.speaker.health_checks > 0)
    server.speaker.state = Health(State.READY)
    assert await waiting == (0, "")
    assert samples_of(path) == pcm16(tone(TEXT, 0, frames_of(TEXT)))


async def test_exit_codes_say_whose_fault_it_is(server: Running, tmp_path: Path) -> None:
    save = ("--save", str(tmp_path / "a.wav"))
    assert (await client(None, "speak", TEXT, *save))[0] == 4
    code, said = await client(server, "speak", TEXT, "--voice", "nobody", *save)
    assert (code, "'nobody' is no voice here; valid are wren" in said) == (2, True)
    server.speaker.refusal = BusyError("full")
    assert await client(server, "speak", TEXT, *save) == (4, "ouzel-client: full\n")
    server.speaker.refusal = None
    code, said = await client(server, "speak", TEXT, "--save", str(tmp_path / "missing" / "a.wav"))
    assert (code, "No such file" in said) == (7, True)


def test_the_command_starts_light() -> None:
    code = (
        "import sys, ouzel_client.cli; print(sorted({'torch', 'numpy', 'sounddevice', 'ouzel'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "[]\n"
