"""A language stage that also counts how often it has compiled its model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouzel.config.schema import DeployConfig
from ouzel.engines.llm import build as build_right
from ouzel.stats.steps import NULL, Stats
from ouzel.stats.timeline import InitTimeline

if TYPE_CHECKING:
    from ouzel.engines.llm.core import LanguageCore


class Counting:
    """The core, with one counter more."""

    def __init__(self, core: LanguageCore) -> None:
        self._core = core

    @property
    def counters(self) -> dict[str, int]:
        from vllm.compilation.counter import compilation_counter

        return {**self._core.counters, "compiled": compilation_counter.num_aot_compiles}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)


def build(folder: Path, config: DeployConfig, timeline: InitTimeline, stats: Stats = NULL) -> Counting:
    return Counting(build_right(folder, config, timeline, stats))
