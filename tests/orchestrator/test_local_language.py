"""A language model in a real process with a fake core, which writes its prompt, word by word."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ouzel.config.schema import DeployConfig, LimitsConfig, LlmConfig, OrchestratorConfig
from ouzel.errors import BusyError, ConfigError, EngineError, NotReadyError, RequestError
from ouzel.orchestrator.generation import Generation
from ouzel.orchestrator.language import LanguageState
from ouzel.orchestrator.local_language import LocalLanguage
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, TextDelta
from ouzel.stats.phases import Phase

pytestmark = pytest.mark.usefixtures("fakes")

CONFIG = DeployConfig(
    orchestrator=OrchestratorConfig(restart_backoff_s=0.02, restart_backoff_max_s=0.1, stop_grace_s=0.3),
    llm=LlmConfig(factory="fake_cores:llm", nice=0),
)


@asynccontextmanager
async def begun(
    folder: Path, limits: LimitsConfig | None = None, *, step_stats: bool = False, **llm: Any
) -> AsyncIterator[LocalLanguage]:
    """A language that is told to start, whatever becomes of it."""
    section = replace(CONFIG.llm, model=str(folder), **llm)
    language = LocalLanguage(replace(CONFIG, llm=section, limits=limits or CONFIG.limits), step_stats=step_stats)
    await language.start()
    try:
        yield language
    finally:
        await language.stop()


@asynccontextmanager
async def ready(folder: Path, limits: LimitsConfig | None = None, **options: Any) -> AsyncIterator[LocalLanguage]:
    async with begun(folder, limits, **options) as language:
        await until(lambda: language.status().state is LanguageState.READY)
        yield language


async def until(condition: Callable[[], object], within: float = 15.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it didn't happen"
        await asyncio.sleep(0.005)


def ask(language: LocalLanguage, prompt: str, name: str = "r1", **knobs: float) -> Generation:
    return language.generate(LanguageRequest(prompt=prompt, template=knobs), name)


async def all_of(generation: Generation) -> list[TextDelta]:
    return [delta async for delta in generation]


async def text_of(generation: Generation) -> str:
    return "".join([delta.content async for delta in generation])


def pid_of(language: LocalLanguage) -> int:
    pid = language.status().pid
    assert pid is not None
    return pid


async def test_an_answer_arrives_word_by_word_and_says_how_it_ended(tmp_path: Path) -> None:
    async with ready(tmp_path) as language:
        async with ask(language, "to be or not") as generation:
            deltas = await all_of(generation)
        assert [delta.content for delta in deltas] == ["to ", "be ", "or ", "not", ""]
        assert [delta.last for delta in deltas] == [False] * 4 + [True]
        assert generation.finish is FinishReason.STOP and generation.fault is None and generation.id == "r1"
        assert generation.usage is not None and generation.usage.completion_tokens == 4
        assert language.status().open_requests == 0


async def test_many_at_once_get_their_own_text(tmp_path: Path) -> None:
    async with ready(tmp_path, max_waiting=16) as language:
        prompts = [f"{number} " * number for number in range(1, 16)]
        asked = [ask(language, prompt, pace=0.0002) for prompt in prompts]
        assert await asyncio.gather(*map(text_of, asked)) == prompts


async def test_what_the_stage_refuses_or_fails_at_is_raised_by_the_iteration(tmp_path: Path) -> None:
    async with ready(tmp_path) as language:
        refused = ask(language, "Hello", refuse=1)
        with pytest.raises(RequestError, match="the fake language core refuses") as told:
            await refused.wait()
        assert told.value.param == "messages" and refused.finish is FinishReason.ERROR
        faulty, written = ask(language, "one two three", fault=2), []
        with pytest.raises(EngineError, match="the fake language core fails"):
            async for delta in faulty:
                written.append(delta.content)  # noqa: PERF401
        assert written == ["one ", "two "], "what was written before is still told"
        assert language.status().open_requests == 0


async def test_what_is_wrong_with_a_request_is_said_at_once_and_holds_no_slot(tmp_path: Path) -> None:
    async with ready(tmp_path) as language:
        with pytest.raises(RequestError, match="n is 0"):
            language.generate(LanguageRequest(prompt="Hello", n=0), "r1")
        with pytest.raises(RequestError, match="can't be handed on"):
            ask(language, "x" * (1 << 23))
        assert language.status().open_requests == 0
        assert await text_of(ask(language, "Hello")) == "Hello"


async def test_an_abort_ends_it_at_once_and_its_slot_is_free(tmp_path: Path) -> None:
    async with ready(tmp_path, max_num_seqs=1, max_waiting=0) as language:
        generation = ask(language, "word " * 1000, "mine", pace=0.01)
        await anext(generation)
        assert language.abort("mine") and not language.abort("mine") and not language.abort("nobody's")
        assert await all_of(generation) == [] and generation.finish is FinishReason.CANCELLED
        assert await text_of(ask(language, "And now this")) == "And now this", "nothing of it leaks into its successor"
        await until(lambda: language.status().counters.get("running") == 0)


async def test_a_consumer_that_disappears_leaves_nothing(tmp_path: Path) -> None:
    async with ready(tmp_path) as language:
        async for _ in ask(language, "word " * 1000, pace=0.05):
            break
        gc.collect()
        await until(lambda: language.status().open_requests == 0)

        async def read() -> None:
            async with ask(language, "word " * 1000, pace=0.01) as generation:
                await all_of(generation)

        reader = asyncio.create_task(read())
        await until(lambda: language.status().open_requests == 1)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        assert language.status().open_requests == 0


async def test_a_flood_is_refused_beyond_the_bound_and_those_who_wait_have_their_turn(tmp_path: Path) -> None:
    async with ready(tmp_path, max_num_seqs=2, max_waiting=3) as language:
        asked = [ask(language, "a few words", pace=0.002) for _ in range(5)]
        for _ in range(100):
            with pytest.raises(BusyError, match="2 requests are running and 3 waiting"):
                ask(language, "one too many")
        assert language.status().most_requests == 5
        assert set(await asyncio.gather(*map(text_of, asked))) == {"a few words"}
        assert await text_of(ask(language, "Now there is room")) == "Now there is room"


async def test_a_slow_reader_gets_all_of_it_in_longer_deltas(tmp_path: Path) -> None:
    async with ready(tmp_path, limits=LimitsConfig(progress_deadline_s=0.5)) as language:
        slow = ask(language, "word " * 5000)
        await until(lambda: slow.usage is not None)
        await asyncio.sleep(0.8)
        deltas = await all_of(slow)
        assert len(deltas) < 100 and "".join(delta.content for delta in deltas) == "word " * 5000
        assert slow.finish is FinishReason.STOP


async def test_a_killed_stage_ends_its_requests_and_is_started_again(tmp_path: Path) -> None:
    async with ready(tmp_path) as language:
        running = [ask(language, "word " * 1000, pace=0.01) for _ in range(3)]
        first = [await anext(generation) for generation in running]
        assert {delta.content for delta in first} == {"word "}
        pid, died = pid_of(language), time.monotonic()
        os.kill(pid, signal.SIGKILL)
        answers = await asyncio.gather(*map(all_of, running), return_exceptions=True)
        assert time.monotonic() - died < 1
        assert all(isinstance(answer, EngineError) and "llm stage died" in str(answer) for answer in answers)
        assert language.status().state is LanguageState.RESTARTING and language.status().counters == {}
        with pytest.raises(NotReadyError, match=r"restarting \(the llm stage died"):
            ask(language, "Too early")
        await until(lambda: language.status().serving)
        status = language.status()
        assert status.restarts == 1 and status.reason == "" and pid_of(language) != pid
        assert await text_of(ask(language, "Again")) == "Again"


async def test_a_stage_that_hangs_is_ended_and_its_requests_with_it(tmp_path: Path) -> None:
    async with ready(tmp_path, LimitsConfig(progress_deadline_s=1.0)) as language:
        hanging = ask(language, "one two three", hang=2)
        with pytest.raises(EngineError, match="no progress for|said nothing for"):
            await all_of(hanging)
        assert language.status().open_requests == 0


async def test_a_start_that_fails_says_why_and_stays_out(tmp_path: Path) -> None:
    (tmp_path / "torn").touch()
    async with begun(tmp_path) as language:
        with pytest.raises(NotReadyError, match="the language model is loading"):
            ask(language, "Too early")
        await until(lambda: language.status().state is LanguageState.FAILED)
        assert language.status().reason == "config.json is torn" and not language.status().serving
        assert language.status().model == tmp_path.name and language.status().facts is None
        with pytest.raises(NotReadyError, match=r"failed \(config.json is torn\)"):
            ask(language, "Never")
    (tmp_path / "torn").unlink()
    assert language.status().state is LanguageState.STOPPED
    await language.start()
    try:
        await until(lambda: language.status().serving)
    finally:
        await language.stop()


async def test_it_can_be_stopped_while_it_loads(tmp_path: Path) -> None:
    (tmp_path / "stuck").touch()
    async with begun(tmp_path) as language:
        await until(lambda: "load fake" in language.status().reason)
        pid = pid_of(language)
    assert not os.path.exists(f"/proc/{pid}")  # noqa: ASYNC240


async def test_leaving_ends_those_who_still_read(tmp_path: Path) -> None:
    async with ready(tmp_path) as language:
        reading = [asyncio.create_task(all_of(ask(language, "word " * 1000, pace=0.01))) for _ in range(3)]
        await until(lambda: language.status().counters.get("running") == 3)
    await asyncio.wait_for(asyncio.gather(*reading), 5)
    with pytest.raises(NotReadyError, match="stopped"):
        ask(language, "Too late")


async def test_what_it_tells_of_itself(tmp_path: Path) -> None:
    async with ready(tmp_path, step_stats=True) as language:
        await text_of(ask(language, "one two three"))
        await until(lambda: language.status().counters)
        status = language.status()
        assert status.facts is not None and (status.model, status.facts.context) == ("fake", 100)
        assert status.counters["preemptions"] == 0
        assert status.to_json()["state"] == "ready" and status.to_json()["facts"]["kv_tokens"] == 400
        assert {span.process for span in language.spans} == {"llm"}
        snapshots = {snapshot.process: snapshot for snapshot in await language.snapshots()}
        assert snapshots.keys() == {"llm", "language"}
        hops = snapshots["language"].beside[Phase.HOP]
        assert hops.count == 4 and snapshots["language"].beside[Phase.DISPATCH].count == 4


async def test_without_statistics_there_are_none(tmp_path: Path) -> None:
    async with ready(tmp_path) as language:
        assert await language.snapshots() == []


def test_it_needs_a_folder() -> None:
    with pytest.raises(ConfigError, match="llm.model is null"):
        LocalLanguage(CONFIG)
