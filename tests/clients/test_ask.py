"""Questions to the server's language model: by the library, and by the command."""

from __future__ import annotations

import wave
from collections.abc import AsyncGenerator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio
from command import client
from fake_language import TEXT, FakeLanguage, said, script
from fake_speaker import frames_of, tone
from running import Running, running, until

from ouzel.audio.wav import pcm16
from ouzel.orchestrator.language import LanguageState
from ouzel.stages.core import FinishReason
from ouzel_client import Answered, Audio, Done, ServerError, Started, Writing, connect

QUESTION = "What is the capital of France?"


@pytest_asyncio.fixture
async def answering() -> AsyncGenerator[Running, None]:
    async with running(language=FakeLanguage()) as found:
        yield found


def url_of(server: Running) -> str:
    return f"http://127.0.0.1:{server.port}"


def heard(server: Running) -> bytes:
    return b"".join(pcm16(tone(one, 0, frames_of(one))) for one in server.speaker.pieces)


async def test_an_answer_comes_in_text_and_sound(answering: Running) -> None:
    async with connect(url_of(answering), system="Be short.", temperature=0) as session:
        events = [event async for event in session.ask(QUESTION)]
    assert "".join(event.text for event in events if isinstance(event, Writing)) == TEXT
    assert [event.text for event in events if isinstance(event, Answered)] == [TEXT]
    assert b"".join(event.data for event in events if isinstance(event, Audio)) == heard(answering)
    assert sum(isinstance(event, Started) for event in events) == 1
    assert isinstance(events[-1], Done) and events[-1].reason == "stop"
    asked = answering.language.asked[0]
    assert asked.messages is not None and [one["role"] for one in asked.messages] == ["system", "user"]
    assert asked.sampling.temperature == 0


async def test_a_session_may_say_and_ask_in_turn(answering: Running) -> None:
    async with connect(url_of(answering)) as session:
        assert [event async for event in session.speak("Said.")]
        assert answering.speaker.pieces == ["Said."] and answering.language.asked == []
        assert [event async for event in session.ask("First?")]
        assert [event async for event in session.ask("Second?")]
        assert answering.language.asked[1].messages is not None
        assert [one["content"] for one in answering.language.asked[1].messages] == ["First?", TEXT, "Second?"]
        assert [event async for event in session.speak("Said again.")]
        assert answering.speaker.pieces[-1] == "Said again." and len(answering.language.asked) == 2


async def test_leaving_an_answer_stops_the_model(answering: Running) -> None:
    answering.language.free_deltas = 1
    answering.language.gate.clear()
    async with connect(url_of(answering)) as session:
        answer = session.ask(QUESTION)
        assert isinstance(await anext(answer), Writing)
        await answer.aclose()
        await until(lambda: (answering.language.running, answering.speaker.running) == (0, 0))
        answering.language.gate.set()
        events = [event async for event in session.ask("And now?")]
        assert "".join(event.text for event in events if isinstance(event, Writing)) == TEXT


async def test_without_a_language_model_the_question_is_not_said_either(server: Running) -> None:
    async with connect(url_of(server)) as session:
        with pytest.raises(ServerError, match="no language model is served here"):
            async for _ in session.ask(QUESTION):
                continue
        events = [event async for event in session.speak("Said.")]
        assert isinstance(events[-1], Done) and events[-1].reason == "stop"
    assert server.speaker.pieces[-1] == "Said."


async def test_the_command_prints_and_saves(answering: Running, tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    options = ("--temperature", "0", "--max-tokens", "9", "--system", "Be short.")
    assert await client(answering, "ask", QUESTION, "--save", str(path), *options) == (0, f"{TEXT}\n")
    with wave.open(str(path)) as reader:
        assert reader.readframes(reader.getnframes()) == heard(answering)
    asked = answering.language.asked[0]
    assert (asked.sampling.temperature, asked.sampling.max_tokens) == (0, 9)


async def test_the_command_takes_a_question_from_a_pipe(answering: Running, tmp_path: Path) -> None:
    code, printed = await client(answering, "ask", "--save", str(tmp_path / "a.flac"), stdin=b"What is\nthis?")
    assert (code, printed) == (0, f"{TEXT}\n")
    assert answering.language.asked[0].messages == ({"role": "user", "content": "What is\nthis?"},)


async def test_an_answer_without_sound_leaves_no_file(answering: Running, tmp_path: Path) -> None:
    answering.language.script = script(said("---", finish=FinishReason.STOP))
    path = tmp_path / "a.wav"
    assert await client(answering, "ask", QUESTION, "--save", str(path)) == (0, "---\n")
    assert not path.exists()


async def test_the_command_waits_for_a_model_that_loads(
    answering: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    language, looks = answering.language, count()
    ready = language.now
    loading = replace(ready, state=LanguageState.LOADING)
    save = ("--save", str(tmp_path / "a.wav"))
    monkeypatch.setattr(language, "status", lambda: loading)
    code, printed = await client(answering, "ask", QUESTION, *save)
    assert (code, "the language model is loading" in printed) == (4, True)
    monkeypatch.setattr(language, "status", lambda: loading if next(looks) < 2 else ready)
    assert await client(answering, "ask", QUESTION, *save, "--wait", "50") == (0, f"{TEXT}\n")


async def test_a_server_that_only_speaks_is_said(server: Running, tmp_path: Path) -> None:
    code, printed = await client(server, "ask", QUESTION, "--save", str(tmp_path / "a.wav"))
    assert (code, printed) == (2, "ouzel-client: respond: no language model is served here\n")
