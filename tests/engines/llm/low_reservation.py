"""A language stage whose admission is wrong: it reserves one block for a request, whatever that comes to need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ouzel.config.schema import DeployConfig
from ouzel.engines.llm import build as build_right
from ouzel.stats.steps import NULL, Stats
from ouzel.stats.timeline import InitTimeline

if TYPE_CHECKING:
    from ouzel.engines.llm.core import LanguageCore
    from ouzel.engines.llm.kv import BlockCount


class OneBlock:
    """In place of the count of blocks."""

    def __init__(self, blocks: BlockCount) -> None:
        self.capacity = blocks.capacity

    def of(self, tokens: int) -> int:
        return 1


def build(folder: Path, config: DeployConfig, timeline: InitTimeline, stats: Stats = NULL) -> LanguageCore:
    core = build_right(folder, config, timeline, stats)
    core._blocks = OneBlock(core._blocks)  # type: ignore[assignment]
    return core
