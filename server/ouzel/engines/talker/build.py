"""The talker stage from a voice and a deployment, ready to speak without a first slow step."""

from __future__ import annotations

from pathlib import Path

import torch

from ouzel.config.schema import DeployConfig
from ouzel.config.schema import TalkerConfig as TalkerSettings
from ouzel.engines.talker.core import PrefillPolicy, TalkerCore
from ouzel.models.qwen3_tts.checkpoint import TalkerSide, load_talker_side
from ouzel.models.qwen3_tts.kv_cache import KVCache
from ouzel.scheduling import Admission, ChunkSchedule, KvGeometry, kv_budget
from ouzel.stats.steps import NULL, Stats
from ouzel.stats.timeline import InitTimeline

__all__ = ["build"]


def build(folder: Path, config: DeployConfig, timeline: InitTimeline, stats: Stats = NULL) -> TalkerCore:
    """Load the voice in `folder` and warm it up.

    :raises CheckpointError: when a file of the voice is missing or torn.
    :raises ConfigError: when the settings can't be served: no room for one sentence, layers that can't be quantized.
    """
    settings = config.talker
    with timeline.phase("load talker"):
        group = None if settings.quantization is None else settings.quantization_group
        side = load_talker_side(folder, getattr(torch, settings.dtype), group)
    admission = _admission(side, settings, config.limits.max_waiting)
    with timeline.phase("warm up talker"):
        _warm_up(side, settings)
    return TalkerCore(
        side,
        admission=admission,
        schedule=ChunkSchedule(settings.chunk_frames).with_minimum(settings.chunk_min_frames),
        prefill=PrefillPolicy(
            settings.prefill_rows, margin_s=settings.prefill_margin_ms / 1000, max_hold_s=settings.prefill_max_hold_s
        ),
        stats=stats,
    )


def _admission(side: TalkerSide, settings: TalkerSettings, max_waiting: int) -> Admission[tuple[int, int]]:
    talker = side.config.talker
    geometry = KvGeometry(
        layers=talker.num_hidden_layers,
        kv_heads=talker.num_key_value_heads,
        head_dim=talker.head_dim,
        bytes_per_value=side.talker.codec_head.weight.element_size(),
    )
    budget = kv_budget(geometry, settings.max_num_seqs, settings.kv_cache_bytes)
    # Long sentences may leave memory for fewer than `sequences`: whom the server let in waits all the same.
    return Admission(budget.tokens, budget.sequences, budget.sequences + max_waiting)


@torch.inference_mode()
def _warm_up(side: TalkerSide, settings: TalkerSettings) -> None:
    """Each shape that a step can have: a piece of prompt, and 1 to `max_num_seqs` rows."""
    talker, config = side.talker, side.config.talker
    like = talker.codec_head.weight
    for batch in range(1, settings.max_num_seqs + 1):
        caches = [KVCache(config, settings.prefill_rows + 1, like.dtype) for _ in range(batch)]
        for cache in caches:
            talker.prefill(like.new_zeros(settings.prefill_rows, config.hidden_size), cache)
        hidden = talker.decode(like.new_zeros(batch, config.hidden_size), caches)
        c0 = talker.logits(hidden)[:, : config.predictor.vocab_size].argmax(1)
        frames = side.predictor.predict(hidden, c0, lambda logits, _: logits.argmax(1), talker)
        side.predictor.embed_sum(frames, talker)
