"""A real voice speaks what a scripted language model writes, over a real socket, before the model is done."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

sys.path.insert(0, str(Path(__file__).parent / "gateway"))

from fake_language import FakeLanguage, said, script
from running import running

from ouzel.gateway.omni import OmniSpeaker
from ouzel.orchestrator import AsyncOmni
from ouzel.stages.core import FinishReason


def raw_voice(voice: Path, folder: Path) -> Path:
    """The same voice, as one that reads text as it is written: such a one reads along."""
    shutil.copytree(voice, folder)
    config = json.loads((folder / "config.json").read_text())
    config["ouzel"]["text"] = "raw"
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("mode", "before", "after"),
    [
        ("normalize", ["Hello **the", "re**. And "], ["so on."]),
        # Words are enough: the sentence has no end yet.
        ("raw", ["Hello there, ", "the World is a *user* ", "and all of that "], ["and more."]),
    ],
)
async def test_sound_comes_while_the_model_still_writes(
    tiny_voice: Path, tmp_path: Path, mode: str, before: list[str], after: list[str]
) -> None:
    voice = tiny_voice if mode == "normalize" else raw_voice(tiny_voice, tmp_path / "raw")
    language = FakeLanguage()
    language.script = script(*map(said, before), *(said(piece, finish=FinishReason.STOP) for piece in after))
    language.free_deltas = len(before)
    language.gate.clear()
    async with OmniSpeaker(AsyncOmni(voice=voice)) as speaker:
        async with running(speaker=speaker, language=language) as server:  # type: ignore[arg-type]
            async with connect(server.socket_url) as socket:
                for message in (
                    {"type": "session.config", "respond": True, "timing": True, "max_new_tokens": 40, "seed": 1},
                    {"type": "input.text", "text": "Hello?"},
                    {"type": "input.done"},
                ):
                    await socket.send(json.dumps(message))
                while isinstance(await socket.recv(), str):
                    continue
                # There is sound, and the model stands still before its last word.
                assert language.deltas_made == len(before)
                language.gate.set()
                kinds, sound, written = [], 0, ""
                while not kinds or kinds[-1] != "audio.done":
                    message = await socket.recv()
                    if isinstance(message, bytes):
                        sound += len(message)
                        continue
                    event = json.loads(message)
                    kinds.append(event["type"])
                    written = event["text"] if event["type"] == "text.done" else written
            assert written == "".join([*before, *after])
            assert event["reason"] in ("stop", "length") and event["frames"] > 1 and sound
