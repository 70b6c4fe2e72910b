"""vLLM's engine around a checkpoint: registered, configured, loaded, compiled and warm."""

from __future__ import annotations

import ctypes
import difflib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from pydantic import ValidationError
from vllm import ModelRegistry
from vllm import __version__ as vllm_version
from vllm.config import VllmConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.plugins import load_general_plugins
from vllm.renderers import renderer_from_config
from vllm.v1.engine.core import EngineCore
from vllm.v1.engine.input_processor import InputProcessor
from vllm.v1.engine.output_processor import OutputProcessor
from vllm.v1.executor.uniproc_executor import UniProcExecutor
from vllm.v1.kv_cache_interface import KVCacheConfig

from ouzel.config.schema import LlmConfig
from ouzel.engines.llm.arguments import engine_arguments
from ouzel.engines.llm.chat import Chat
from ouzel.engines.llm.checkpoint import Checkpoint
from ouzel.engines.llm.compile_cache import mend_compile_cache
from ouzel.engines.llm.core import LanguageCore
from ouzel.engines.llm.engine import Engine
from ouzel.engines.llm.intake import Intake
from ouzel.engines.llm.ir_ops import register_ir_ops
from ouzel.engines.llm.kv import BlockCount
from ouzel.engines.llm.parsers import Parsers, Reading, reading_of
from ouzel.errors import ConfigError
from ouzel.stages.language import LanguageFacts, LanguageRequest, LanguageSampling
from ouzel.stats.steps import Stats
from ouzel.stats.timeline import InitTimeline

__all__ = ["load"]

#: what vLLM's advice calls our settings
_SETTINGS = {"gpu_memory_utilization": "llm.kv_cache_bytes", "max_model_len": "llm.max_model_len"}


def load(checkpoint: Checkpoint, settings: LlmConfig, timeline: InitTimeline, stats: Stats) -> LanguageCore:
    """:raises ConfigError: with vLLM's words, when it can't serve the checkpoint with these settings"""
    with timeline.phase("register model"):
        register(checkpoint.architecture)
    if settings.compile_cache_fix:
        mend_compile_cache()
    if settings.cpu_ir_ops:
        register_ir_ops()
    reading = reading_of(checkpoint.model_type, checkpoint.template)
    with timeline.phase("read tokenizer and config"), _said_by_vllm(checkpoint):
        config = EngineArgs(**engine_arguments(checkpoint, settings, reading.reasoning)).create_engine_config()
        renderer = renderer_from_config(config)
        parsers = Parsers.of(reading, renderer.get_tokenizer())
    with _said_by_vllm(checkpoint):
        engine_core = EngineCore(config, _timed(timeline), log_stats=False)
    kv_cache: KVCacheConfig = engine_core.scheduler.kv_cache_config
    check_kv_bytes(kv_cache, settings.kv_cache_bytes)
    context = config.model_config.max_model_len
    inputs = InputProcessor(config, renderer)
    core = LanguageCore(
        Engine(engine_core, OutputProcessor(renderer.get_tokenizer(), log_stats=False)),
        Intake(
            renderer,
            inputs,
            Chat(renderer, reading, checkpoint.name, has_template=checkpoint.template is not None),
            parsers,
            config.model_config.get_diff_sampling_param(),
            context,
        ),
        BlockCount(
            [group.kv_cache_spec for group in kv_cache.kv_cache_groups],
            kv_cache.num_blocks,
            config.scheduler_config.max_num_batched_tokens,
        ),
        _facts(checkpoint.name, config, reading),
        max_num_seqs=settings.max_num_seqs,
        max_waiting=settings.max_waiting,
        stats=stats,
    )
    with timeline.phase("first words"):
        _warm_up(core)
    stats.reset()
    # vLLM has seeded the process with a constant, and requests without a seed draw from that.
    torch.seed()
    # What loading took and freed goes back to the system: 108 MB of 1.77 GB with SmolLM2.
    ctypes.CDLL(None).malloc_trim(0)
    return core


def register(architecture: str) -> None:
    """Load the model's class here and now, instead of in a process that vLLM starts to look at it.

    :raises ConfigError: when nobody knows the architecture
    """
    load_general_plugins()
    known = ModelRegistry.models
    if architecture not in known:
        near = difflib.get_close_matches(architecture, known, n=3, cutoff=0.5)
        raise ConfigError(
            f"unknown architecture {architecture!r}: it is none of the {len(known)} that vLLM {vllm_version} and its "
            f"plugins have; nearest are {', '.join(near) or 'none'} (Llama, Qwen, Spark-X2.5 and the like are served)",
            param="llm.model",
        )
    ModelRegistry.register_model(architecture, known[architecture].load_model_cls())


def check_kv_bytes(kv_cache: KVCacheConfig, wanted: int) -> None:
    """By what the engine made, for a setting that doesn't arrive looks just like one that does.

    :raises ConfigError: when its blocks aren't the memory that was asked for, to a block
    """
    # Groups of layers share one allocation, and each tensor has the size of all of it.
    held = max(tensor.size for tensor in kv_cache.kv_cache_tensors)
    if not wanted - held // kv_cache.num_blocks <= held <= wanted:
        raise ConfigError(
            f"llm.kv_cache_bytes is {wanted} and vLLM made a cache of {held} bytes ({kv_cache.num_blocks} blocks)",
            param="llm.kv_cache_bytes",
        )


@contextmanager
def _said_by_vllm(checkpoint: Checkpoint) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # vLLM and what it reads checkpoints with raise anything, also kinds of their own
        raise ConfigError(f"vLLM can't serve {checkpoint.folder}: {_words(error)}", param="llm.model") from error


def _words(error: Exception) -> str:
    """What it says, with settings by the names that they have here."""
    said = str(error.errors()[0]["msg"]) if isinstance(error, ValidationError) else str(error)
    for name, ours in _SETTINGS.items():
        said = re.sub(rf"\b{name}\b", ours, said)
    return said if " " in said else f"{type(error).__name__}: {said}"


def _timed(timeline: InitTimeline) -> type[UniProcExecutor]:
    """vLLM's executor of one process, which tells the timeline what it is at."""

    class TimedExecutor(UniProcExecutor):
        def _init_executor(self) -> None:
            with timeline.phase("load weights"):
                super()._init_executor()

        def _distributed_args(self) -> tuple[str, int, int]:
            # vLLM meets itself in a file of the temporary folder, which a stage that is killed would leave there.
            meeting = os.memfd_create("vllm")
            return f"file:///proc/self/fd/{meeting}", 0, 0

        def determine_available_memory(self) -> list[int]:
            # The first run through the model compiles it, or loads what was compiled before.
            with timeline.phase("compile"):
                return super().determine_available_memory()

        def initialize_from_config(self, kv_cache_configs: list[KVCacheConfig]) -> None:
            with timeline.phase("make KV cache"):
                super().initialize_from_config(kv_cache_configs)

        def compile_or_warm_up_model(self) -> None:
            with timeline.phase("warm up"):
                super().compile_or_warm_up_model()

    return TimedExecutor


def _facts(name: str, config: VllmConfig, reading: Reading) -> LanguageFacts:
    return LanguageFacts(
        model=name,
        context=config.model_config.max_model_len,
        kv_tokens=config.cache_config.kv_cache_size_tokens,
        tools=reading.tools is not None,
        reasoning=reading.reasoning is not None,
    )


def _warm_up(core: LanguageCore) -> None:
    """A prompt and two tokens: the first of each would be slow otherwise."""
    core.add(LanguageRequest(prompt_ids=(0,) * 8, sampling=LanguageSampling(max_tokens=2, ignore_eos=True)))
    while core.has_work:
        core.step()
