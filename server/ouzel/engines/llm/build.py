"""The language stage from a checkpoint and a deployment. What can't be served is said before anything is loaded."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ouzel.config.probe import probe_device
from ouzel.config.schema import DeployConfig
from ouzel.engines.llm.arguments import BYTES_PER_VALUE, group_at_load
from ouzel.engines.llm.checkpoint import read_checkpoint
from ouzel.engines.llm.environment import prepare_environment
from ouzel.engines.llm.memory import available_bytes, check_memory
from ouzel.engines.llm.unused import hide_unused
from ouzel.quantization.weight_path import check_method
from ouzel.stats.steps import NULL, Stats
from ouzel.stats.timeline import InitTimeline

if TYPE_CHECKING:
    from ouzel.engines.llm.core import LanguageCore

__all__ = ["build", "uncollected"]


def build(folder: Path, config: DeployConfig, timeline: InitTimeline, stats: Stats = NULL) -> LanguageCore:
    """Load the model in `folder` and warm it up.

    :raises CheckpointError: when the folder is missing, or a file of it is missing or torn.
    :raises ConfigError: when its architecture is unknown, or the device hasn't the memory, or the instructions for
        weights that are quantized as they are.
    """
    settings = config.llm
    with timeline.phase("read checkpoint"):
        checkpoint = read_checkpoint(folder, BYTES_PER_VALUE[settings.dtype], group_at_load(settings))
        check_method(checkpoint.quantization or settings.quantization, probe_device())
        check_memory(checkpoint.weights_bytes, settings.kv_cache_bytes, available_bytes())
    hide_unused()
    prepare_environment(os.environ)
    with timeline.phase("import vllm"), uncollected():
        from ouzel.engines.llm.load import load
    return load(checkpoint, settings, timeline, stats)


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for garbage, neither now nor later, among what is made here and stays.

    It took a quarter of vLLM's import: 6.7 s of one core's time with it, 5.1 s without.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
