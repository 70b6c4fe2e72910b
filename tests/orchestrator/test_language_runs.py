"""Random runs with a real language stage: requests of all kinds, aborts, vanishing readers and deaths, at any time.

A run prints its seed where it fails; `OUZEL_FUZZ_SEED` repeats it.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ouzel.config.schema import DeployConfig, LimitsConfig, LlmConfig, OrchestratorConfig
from ouzel.errors import BusyError, EngineError, NotReadyError, RequestError
from ouzel.orchestrator.generation import Generation
from ouzel.orchestrator.local_language import LocalLanguage
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest

SEED = int(os.environ.get("OUZEL_FUZZ_SEED") or secrets.randbits(32))


async def one_request(language: LocalLanguage, dice: random.Random) -> str:
    """Ask, and let something happen to it; answers how it ended."""
    words = dice.randint(1, 60)
    fate = dice.choice(["read out", "read out", "abort", "vanish", "cancel", "fault", "refuse"])
    knobs: dict[str, float] = {"pace": dice.choice([0.0, 0.0002, 0.002])}
    if fate in ("fault", "refuse"):
        knobs[fate] = dice.randrange(words)
    prompt = "".join(f"{number} " for number in range(words))
    generation = await at_the_door(language, LanguageRequest(prompt=prompt, template=knobs))
    read, patience = "", dice.randint(0, 8)
    try:
        async for delta in generation:
            read += delta.content
            patience -= 1
            if fate == "abort" and patience <= 0:
                generation.abort()
            elif fate == "vanish" and patience <= 0:
                await generation.aclose()
                break
            elif fate == "cancel" and patience <= 0:
                asyncio.get_running_loop().call_later(dice.random() * 0.005, generation.abort)
            elif dice.random() < 0.05:
                await asyncio.sleep(dice.random() * 0.02)
    except (EngineError, RequestError) as error:
        assert generation.fault is error
    assert generation.finish is not None and prompt.startswith(read)
    if generation.finish is FinishReason.STOP:
        assert read == prompt and generation.usage is not None and generation.usage.completion_tokens == words
    return str(generation.finish)


async def at_the_door(language: LocalLanguage, request: LanguageRequest) -> Generation:
    """Come back until it is let in."""
    for _ in range(1000):
        try:
            return language.generate(request, "r")
        except (BusyError, NotReadyError):
            await asyncio.sleep(0.02)
    raise AssertionError("never let in")


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it didn't happen")


async def run(language: LocalLanguage, runs: int, deaths: int, dice: random.Random) -> Counter[str]:
    """`runs` requests, a few at once, while the stage is killed `deaths` times among them."""
    endings: Counter[str] = Counter()
    left = runs

    async def client(dice: random.Random) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            endings[await asyncio.wait_for(one_request(language, dice), 30)] += 1

    async def reaper() -> None:
        for _ in range(deaths):
            await asyncio.sleep(dice.random() * 0.5)
            await until(lambda: language.status().serving)
            before = language.status()
            assert before.pid is not None
            os.kill(before.pid, signal.SIGKILL)
            # Until it is seen, the dead one still counts as serving, and would be killed once more.
            await until(lambda: language.status().restarts > before.restarts)  # noqa: B023  # awaited in the same turn
        await until(lambda: language.status().serving)

    async with asyncio.TaskGroup() as group:
        group.create_task(reaper())
        for _ in range(8):
            group.create_task(client(random.Random(dice.random())))
    return endings


@pytest.mark.parametrize(
    ("runs", "deaths"), [(200, 2), pytest.param(20_000, 30, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
@pytest.mark.usefixtures("fakes")
async def test_every_request_ends_once_and_nothing_is_left(tmp_path: Path, runs: int, deaths: int) -> None:
    print(f"OUZEL_FUZZ_SEED={SEED}")  # noqa: T201  # pytest shows it where the test fails
    language = LocalLanguage(
        DeployConfig(
            orchestrator=OrchestratorConfig(restart_backoff_s=0.02, restart_backoff_max_s=0.1),
            limits=LimitsConfig(progress_deadline_s=20),
            llm=LlmConfig(factory="fake_cores:llm", nice=0, model=str(tmp_path), max_num_seqs=4, max_waiting=2),
        )
    )
    await language.start()
    try:
        await until(lambda: language.status().serving)
        endings = await run(language, runs, deaths, random.Random(SEED))
        assert endings.total() == runs and language.status().open_requests == 0
        assert all(endings[ending] > runs / 20 for ending in ("stop", "cancelled", "error")), endings
        before = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
        await run(language, 50, 0, random.Random(SEED))
        assert language.status().restarts == deaths, "it died of no request"
        assert (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())) == before
    finally:
        await language.stop()
