"""The code2wav stage from a voice and a deployment, ready to decode without a first slow step."""

from __future__ import annotations

from pathlib import Path

import torch

from ouzel.config.schema import DeployConfig
from ouzel.engines.code2wav.core import Code2WavCore
from ouzel.models.qwen3_tts.checkpoint import load_codec_decoder
from ouzel.models.qwen3_tts.codec_stream import StreamingDecoder
from ouzel.scheduling import ChunkSchedule
from ouzel.stats.steps import NULL, Stats
from ouzel.stats.timeline import InitTimeline

__all__ = ["build"]


def build(folder: Path, config: DeployConfig, timeline: InitTimeline, stats: Stats = NULL) -> Code2WavCore:
    """Load the codec decoder of the voice in `folder` and warm it up.

    :raises CheckpointError: when a file of the voice is missing or torn.
    """
    with timeline.phase("load codec"):
        decoder = StreamingDecoder(load_codec_decoder(folder))
    schedule = ChunkSchedule(config.talker.chunk_frames).with_minimum(config.talker.chunk_min_frames)
    with timeline.phase("warm up codec"):
        _warm_up(decoder, schedule)
    return Code2WavCore(decoder, max_streams=config.code2wav.max_streams, stats=stats)


def _warm_up(decoder: StreamingDecoder, schedule: ChunkSchedule) -> None:
    """Every size that a chunk can have, as one stream: what an utterance ends with is any of them.

    oneDNN prepares each shape once and keeps what it prepared. Met one after the other by requests, that looks like a
    leak: the soak run grew by 0.14 MB a request, and by 0.01 MB since all of them are met here.
    """
    state = decoder.init_state()
    for frames in range(schedule.steady, 0, -1):  # the largest first: the others fit into what it leaves
        _, state = decoder.step(torch.zeros(1, decoder.config.num_quantizers, frames, dtype=torch.int64), state)
