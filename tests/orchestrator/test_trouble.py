"""What people do to a server at awkward moments. Real processes with fake cores, one frame a letter."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ouzel.config.schema import LimitsConfig
from ouzel.errors import EngineError, NotReadyError
from ouzel.orchestrator import AsyncOmni, Omni, Speech
from ouzel.stages.core import FinishReason

Options = Callable[..., dict[str, Any]]


def processes() -> set[int]:
    tasks = Path("/proc/self/task").iterdir()
    return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


@pytest.fixture
def children() -> Callable[[], set[int]]:
    """The processes that were begun since the test did; stages that other tests share may be there before."""
    before = processes()
    return lambda: processes() - before


async def until(condition: Callable[[], object]) -> None:
    for _ in range(5000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it didn't happen")


async def pid_of(omni: AsyncOmni, stage: str) -> int:
    """Of its process, as soon as it has one."""
    await until(lambda: omni.health().stages[stage].pid)
    pid = omni.health().stages[stage].pid
    assert pid is not None
    return pid


async def frames_of(speech: Speech) -> int:
    return sum([chunk.frames async for chunk in speech])


@pytest.mark.parametrize("stage", [None, "talker", "code2wav"])
async def test_a_start_that_is_cancelled_leaves_nothing(
    fakes: Options, children: Callable[[], set[int]], stage: str | None
) -> None:
    omni = AsyncOmni(**fakes())
    starting = asyncio.create_task(omni.__aenter__())
    if stage is not None:
        await pid_of(omni, stage)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert children() == set() and omni.health().state == "stopped"
    async with omni:
        assert await frames_of(omni.speak("Again.")) == 6, "it can be started after all"


async def test_a_stage_that_dies_while_it_starts_ends_the_start(
    fakes: Options, children: Callable[[], set[int]]
) -> None:
    omni = AsyncOmni(**fakes())
    starting = asyncio.create_task(omni.__aenter__())
    os.kill(await pid_of(omni, "code2wav"), signal.SIGKILL)
    with pytest.raises(EngineError, match="code2wav stage died"):
        await starting
    assert children() == set()


async def test_a_stage_that_dies_in_its_restart_is_started_again(fakes: Options) -> None:
    async with AsyncOmni(**fakes()) as omni:
        for _ in range(2):
            pid = await pid_of(omni, "talker")
            os.kill(pid, signal.SIGKILL)
            await until(lambda dead=pid: omni.health().stages["talker"].pid != dead)  # type: ignore[misc]
        await until(lambda: omni.health().ready)
        assert await frames_of(omni.speak("Again.")) == 6


async def test_leaving_ends_those_who_still_listen_and_nobody_speaks_afterwards(
    fakes: Options, children: Callable[[], set[int]]
) -> None:
    omni = AsyncOmni(**fakes(LimitsConfig(max_waiting=2)))
    async with omni:
        listening = [omni.speak("x" * 500, instruct="pace=0.01") for _ in range(6)]
        heard = [asyncio.create_task(frames_of(speech)) for speech in listening]
        await listening[0].wait()
    await asyncio.wait_for(asyncio.gather(*heard), 5)
    assert {speech.finish for speech in listening} == {FinishReason.CANCELLED}
    with pytest.raises(NotReadyError, match="the server is stopped"):
        omni.speak("Too late.")
    assert not omni.abort("r2") and children() == set()


async def test_two_servers_do_not_know_of_each_other(fakes: Options) -> None:
    async with AsyncOmni(**fakes()) as one, AsyncOmni(**fakes()) as other:
        running = other.speak("x" * 60, instruct="pace=0.005")
        pid = one.health().stages["talker"].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert await frames_of(running) == 60 and other.health().ready


def test_many_threads_may_speak_through_one_omni(fakes: Options) -> None:
    with Omni(**fakes()) as omni:

        def say(number: int) -> int:
            with omni.speak("x" * number, instruct="pace=0.001") as speech:
                return sum(chunk.frames for chunk in speech)

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(say, range(1, 17))) == list(range(1, 17))


async def test_the_server_stopped_and_continued_goes_on_where_it_was(fakes: Options) -> None:
    async with AsyncOmni(**fakes()) as omni:
        speech = omni.speak("x" * 60, instruct="pace=0.005")
        await anext(speech)
        pids = [stage.pid for stage in omni.health().stages.values() if stage.pid]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.3)  # noqa: ASYNC251  # the loop is held up as well
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        assert await frames_of(speech) == 58 and speech.finish is FinishReason.STOP
