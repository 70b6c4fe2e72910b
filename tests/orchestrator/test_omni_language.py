"""AsyncOmni with a language model beside the voice, all of them fakes in real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ouzel.config.schema import LlmConfig
from ouzel.errors import CheckpointError, EngineError, NotFoundError, NotReadyError
from ouzel.orchestrator import AsyncOmni, Generation, LanguageState, Omni, Speech
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest

Options = Callable[..., dict[str, Any]]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Folder of the fake language model; the fake voice has its parent."""
    folder = tmp_path / "model"
    folder.mkdir()
    return folder


def llm(folder: Path, **more: Any) -> LlmConfig:
    return LlmConfig(factory="fake_cores:llm", nice=0, model=str(folder), **more)


def asking(prompt: str, **knobs: float) -> LanguageRequest:
    return LanguageRequest(prompt=prompt, template=knobs)


async def until(condition: Callable[[], object], within: float = 15.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it didn't happen"
        await asyncio.sleep(0.005)


def state(omni: AsyncOmni) -> LanguageState:
    status = omni.health().language
    assert status is not None
    return status.state


async def written(omni: AsyncOmni) -> None:
    await until(lambda: state(omni) is LanguageState.READY)


async def text_of(generation: Generation) -> str:
    return "".join([delta.content async for delta in generation])


async def frames_of(speech: Speech) -> int:
    return sum([chunk.frames async for chunk in speech])


async def test_it_writes_and_speaks_at_once(fakes: Options, model: Path) -> None:
    async with AsyncOmni(**fakes(llm=llm(model)), step_stats=True) as omni:
        await written(omni)
        spoken, text = await asyncio.gather(
            frames_of(omni.speak("Hello there.")), text_of(omni.generate(asking("to be or not")))
        )
        assert (spoken, text) == (12, "to be or not")
        assert {span.process for span in omni.timeline()} == {"orchestrator", "talker", "code2wav", "llm"}
        assert {one.process for one in await omni.stats()} == {"orchestrator", "talker", "code2wav", "llm", "language"}
        told = omni.health().to_json()["language"]
        assert told["state"] == "ready" and told["model"] == "fake" and told["most_requests"] == 20


async def test_without_a_model_there_is_none(fakes: Options) -> None:
    async with AsyncOmni(**fakes()) as omni:
        assert omni.language is None and omni.health().to_json()["language"] is None
        with pytest.raises(NotFoundError, match="no language model is served here"):
            omni.generate(asking("Hello"))


async def test_it_speaks_while_the_language_model_loads(fakes: Options, model: Path) -> None:
    (model / "stuck").touch()
    async with AsyncOmni(**fakes(llm=llm(model), stop_grace_s=0.2)) as omni:
        assert omni.health().ready and state(omni) is LanguageState.LOADING
        assert await frames_of(omni.speak("Hello there.")) == 12
        with pytest.raises(NotReadyError, match="loading"):
            omni.generate(asking("Too early"))


async def test_it_speaks_when_the_language_model_cannot_be_started(fakes: Options, model: Path) -> None:
    (model / "torn").touch()
    async with AsyncOmni(**fakes(llm=llm(model))) as omni:
        await until(lambda: state(omni) is LanguageState.FAILED)
        assert omni.health().ready and await frames_of(omni.speak("Hello there.")) == 12
        with pytest.raises(NotReadyError, match="config.json is torn"):
            omni.generate(asking("Never"))


async def test_a_voice_that_cannot_be_started_ends_the_language_model_too(
    fakes: Options, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "torn").touch()
    omni = AsyncOmni(**fakes(llm=llm(model)))
    with pytest.raises(CheckpointError, match="model.safetensors is torn"):
        await omni.__aenter__()
    assert state(omni) is LanguageState.STOPPED


@pytest.mark.parametrize("parallel", [True, False])
async def test_it_loads_beside_the_voice_or_after_it(fakes: Options, model: Path, parallel: bool) -> None:
    async with AsyncOmni(**fakes(llm=llm(model), parallel_stage_init=parallel)) as omni:
        await written(omni)
        begun = {(span.process, span.name): span.start_ns for span in omni.timeline()}
        assert (begun["llm", "start process"] < begun["orchestrator", "measure"]) == parallel


async def test_a_death_on_one_side_is_nothing_to_the_other(fakes: Options, model: Path) -> None:
    async with AsyncOmni(**fakes(llm=llm(model))) as omni:
        await written(omni)
        speaking = omni.speak("x" * 100, instruct="pace=0.005")
        await anext(speaking)
        dying = omni.generate(asking("word " * 1000, pace=0.01))
        await anext(dying)
        status = omni.health().language
        assert status is not None and status.pid is not None
        os.kill(status.pid, signal.SIGKILL)
        with pytest.raises(EngineError, match="llm stage died"):
            await text_of(dying)
        assert omni.health().ready, "speech is as it was"
        assert await frames_of(speaking) == 98 and speaking.finish is FinishReason.STOP
        await written(omni)

        writing = omni.generate(asking("word " * 50, pace=0.005))
        await anext(writing)
        talker = omni.health().stages["talker"].pid
        assert talker is not None
        os.kill(talker, signal.SIGKILL)
        assert await text_of(writing) == "word " * 49
        await until(lambda: omni.health().ready)


async def test_one_name_aborts_what_is_written_and_what_is_spoken(fakes: Options, model: Path) -> None:
    async with AsyncOmni(**fakes(llm=llm(model))) as omni:
        await written(omni)
        writing = omni.generate(asking("word " * 1000, pace=0.01), "mine")
        speaking = omni.speak("x" * 200, instruct="pace=0.01", request_id="mine")
        other = omni.generate(asking("word word", pace=0.01))
        await asyncio.gather(writing.wait(), speaking.wait())
        assert omni.abort("mine") and not omni.abort("mine")
        assert writing.finish is speaking.finish is FinishReason.CANCELLED
        assert await text_of(other) == "word word"


def test_omni_writes_without_an_event_loop(fakes: Options, model: Path) -> None:
    with Omni(**fakes(llm=llm(model))) as omni:
        deadline = time.monotonic() + 15
        while (status := omni.health().language) is None or not status.serving:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        with omni.generate(asking("to be or not")) as generation:
            generation.wait()
            assert "".join(delta.content for delta in generation) == "to be or not"
        assert generation.finish is FinishReason.STOP and generation.fault is None
        assert generation.usage is not None and generation.usage.prompt_tokens == 4
        with omni.generate(asking("word " * 1000, pace=0.01), "mine") as generation:
            next(generation)
        assert generation.finish is FinishReason.CANCELLED and generation.id == "mine"
