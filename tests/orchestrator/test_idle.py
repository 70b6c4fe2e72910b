"""What a server costs while nobody speaks to it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ouzel.config.schema import LlmConfig
from ouzel.orchestrator import AsyncOmni


def computed_s(pid: int) -> float:
    """Seconds that all threads of a process have run so far."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


LLM = LlmConfig(factory="fake_cores:llm", nice=0, model=str(Path(__file__).parent))


@pytest.mark.parametrize("place", [{}, {"placement": "colocate"}, {"llm": LLM}])
async def test_an_idle_server_uses_under_a_hundredth_of_a_core(
    fakes: Callable[..., dict[str, Any]], place: dict[str, Any]
) -> None:
    async with AsyncOmni(**fakes(**place)) as omni:
        [chunk async for chunk in omni.speak("Hello.")]
        await asyncio.sleep(1 if "llm" in place else 0.2)
        health = omni.health()
        pids = {os.getpid(), *(stage.pid for stage in health.stages.values() if stage.pid)}
        if health.language is not None:
            assert health.language.serving and health.language.pid is not None
            pids.add(health.language.pid)
        before, since = sum(map(computed_s, pids)), time.monotonic()
        await asyncio.sleep(3)
        spent, passed = sum(map(computed_s, pids)) - before, time.monotonic() - since
    assert spent / passed < 0.01
