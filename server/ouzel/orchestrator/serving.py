"""Which language model the settings name."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping

from ouzel.config import LLM_KEY_VARIABLE, DeployConfig
from ouzel.orchestrator.language import Language
from ouzel.orchestrator.local_language import LocalLanguage
from ouzel.orchestrator.remote_language import RemoteLanguage
from ouzel.stages.launch import Launch, launch_process

__all__ = ["language_of"]


def language_of(
    config: DeployConfig,
    *,
    step_stats: bool = False,
    launch: Launch = launch_process,
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Language | None:
    """The stage for `llm.model`, or the endpoint at `llm.url`, which takes its place; None where neither is named.

    :raises ConfigError: when the settings are wrong, or the endpoint's client isn't installed.
    """
    if config.llm.url is not None:
        return RemoteLanguage(config.llm, api_key=environ.get(LLM_KEY_VARIABLE), clock=clock, sleep=sleep)
    if config.llm.model is not None:
        return LocalLanguage(config, step_stats=step_stats, launch=launch, clock=clock, sleep=sleep)
    return None
