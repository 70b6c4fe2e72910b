"""Random runs with real processes: requests of all kinds, aborts, vanishing consumers and dying stages, at any time.

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
from typing import Any

import pytest

from ouzel.config.schema import LimitsConfig
from ouzel.errors import BusyError, EngineError, NotReadyError, RequestError
from ouzel.orchestrator import AsyncOmni, Speech
from ouzel.orchestrator.health import Health
from ouzel.stages.core import FinishReason

Options = Callable[..., dict[str, Any]]

SEED = int(os.environ.get("OUZEL_FUZZ_SEED") or secrets.randbits(32))


async def one_request(omni: AsyncOmni, dice: random.Random) -> str:
    """Speak, and let something happen to it; answers how it ended."""
    frames = dice.randint(1, 40)
    pace = dice.choice(["", "pace=0.0005", "pace=0.002"])
    fate = dice.choice(["hear out", "hear out", "abort", "vanish", "cancel", "fault", "refuse"])
    trouble = {"fault": f"fault={dice.randrange(frames)}", "refuse": "refuse"}.get(fate, "")
    speech = await at_the_door(omni, "x" * frames, f"{pace} {trouble}")
    heard, patience = 0, dice.randint(0, 8)
    try:
        async for chunk in speech:
            assert len(chunk.samples) == 1920 * chunk.frames
            heard += chunk.frames
            patience -= 1
            if fate == "abort" and patience <= 0:
                speech.abort()
            elif fate == "vanish" and patience <= 0:
                await speech.aclose()
                break
            elif fate == "cancel" and patience <= 0:
                asyncio.get_running_loop().call_later(dice.random() * 0.005, speech.abort)
            elif dice.random() < 0.1:
                await asyncio.sleep(dice.random() * 0.005)
    except (EngineError, RequestError) as error:
        assert speech.fault is error
    assert speech.finish is not None
    assert heard <= speech.frames <= frames
    if speech.finish is FinishReason.STOP:
        assert heard == speech.frames == frames
    return str(speech.finish)


async def at_the_door(omni: AsyncOmni, text: str, knobs: str) -> Speech:
    """Come back until it is let in."""
    for _ in range(1000):
        try:
            return omni.speak(text, instruct=knobs)
        except (BusyError, NotReadyError):
            await asyncio.sleep(0.02)
    raise AssertionError("never let in")


async def until(omni: AsyncOmni, condition: Callable[[Health], bool]) -> None:
    for _ in range(1000):
        if condition(omni.health()):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"it didn't happen: {omni.health()}")


async def until_ready(omni: AsyncOmni) -> None:
    await until(omni, lambda health: health.ready)


async def kill(omni: AsyncOmni, name: str) -> None:
    """Until it is seen: so long the dead one counts as ready, and would be killed once more."""
    before = omni.health().stages[name]
    assert before.pid is not None
    os.kill(before.pid, signal.SIGKILL)
    await until(omni, lambda health: health.stages[name].restarts > before.restarts)


async def run(omni: AsyncOmni, runs: int, deaths: int, dice: random.Random) -> Counter[str]:
    """`runs` requests, a few at once, while `deaths` stages are killed among them."""
    endings: Counter[str] = Counter()
    left = runs

    async def client(dice: random.Random) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            endings[await asyncio.wait_for(one_request(omni, dice), 30)] += 1

    async def reaper() -> None:
        for _ in range(deaths):
            await asyncio.sleep(dice.random() * 0.5)
            await until_ready(omni)
            await kill(omni, dice.choice(["talker", "code2wav"]))
        await until_ready(omni)

    async with asyncio.TaskGroup() as group:
        group.create_task(reaper())
        for _ in range(6):
            group.create_task(client(random.Random(dice.random())))
    return endings


@pytest.mark.parametrize(
    ("runs", "deaths"), [(150, 2), pytest.param(10_000, 40, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
async def test_every_request_ends_once_and_nothing_is_left(fakes: Options, runs: int, deaths: int) -> None:
    print(f"OUZEL_FUZZ_SEED={SEED}")  # noqa: T201  # pytest shows it where the test fails
    limits = LimitsConfig(buffer_frames=60, max_waiting=4)
    async with AsyncOmni(**fakes(limits)) as omni:
        endings = await run(omni, runs, deaths, random.Random(SEED))
        assert endings.total() == runs
        assert omni.health().open_requests == 0 and omni.health().ready
        assert all(endings[ending] > runs / 20 for ending in ("stop", "cancelled", "error")), endings
        before = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
        await run(omni, 50, 0, random.Random(SEED))
        assert sum(stage.restarts for stage in omni.health().stages.values()) == deaths, "none died of a request"
        assert (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())) == before
