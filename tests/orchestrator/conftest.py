from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ouzel.config.schema import (
    Code2WavConfig,
    DeployConfig,
    LimitsConfig,
    LlmConfig,
    OrchestratorConfig,
    TalkerConfig,
)
from ouzel.orchestrator import VoiceFacts

FAKES = str(Path(__file__).parents[1] / "stages")
sys.path[:0] = [FAKES, str(Path(__file__).parent)]

BASE = DeployConfig(
    orchestrator=OrchestratorConfig(restart_backoff_s=0.02, restart_backoff_max_s=0.1),
    talker=TalkerConfig(factory="fake_cores:talker"),
    code2wav=Code2WavConfig(factory="fake_cores:code2wav"),
)

Options = Callable[..., dict[str, Any]]


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    """Options for an AsyncOmni whose stages are fakes in real processes; keywords are sections of the config."""
    monkeypatch.setenv("PYTHONPATH", FAKES)
    facts = VoiceFacts(
        name="fake",
        folder=tmp_path,
        sample_rate=24_000,
        text_mode="raw",
        letters_per_second=None,
        speakers=("one", "two"),
        default_speaker="one",
        languages=("english",),
        layers=1,
        kv_heads=1,
        head_dim=64,
        stored_bytes=0,
    )

    def options(
        limits: LimitsConfig | None = None, llm: LlmConfig | None = None, **orchestrator: Any
    ) -> dict[str, Any]:
        config = replace(
            BASE,
            orchestrator=replace(BASE.orchestrator, **orchestrator),
            limits=limits or BASE.limits,
            llm=llm or BASE.llm,
        )
        return {"voice": facts, "config": config}

    return options


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = set(os.listdir("/proc/self/fd")), set(os.listdir("/dev/shm"))
    yield
    assert (set(os.listdir("/proc/self/fd")), set(os.listdir("/dev/shm"))) == before
