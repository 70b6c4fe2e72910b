"""From what a device has to how it is used: sequences, threads, placement, smallest chunk, safety margin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ouzel.config.probe import DeviceProbe
from ouzel.scheduling.kv import SENTENCE_TOKENS, KvGeometry

__all__ = ["Overrides", "derive_overrides"]

MIB = 1 << 20

#: Interpreters, torch and buffers of three processes, before any weight.
_BASE_BYTES = 768 * MIB
_LEAST_KV_BYTES = 64 * MIB

#: Beyond these a one-row step or a chunk of a few frames gains nothing.
_MOST_TALKER_THREADS = 8
_MOST_CODE2WAV_THREADS = 4


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the device decides; `settings` names the same as deploy settings."""

    placement: Literal["side_by_side", "colocate"]
    talker_threads: int
    code2wav_threads: int
    #: Threads left to the language stage, which is niced and held back while a stream is short of audio.
    llm_threads: int
    max_num_seqs: int
    kv_cache_bytes: int
    #: No chunk below this many frames.
    chunk_min_frames: int
    #: Audio that a listener keeps when a prefill is let in.
    margin_ms: float

    def settings(self) -> dict[str, object]:
        """As dotted keys of the deploy schema (`load_config(derived=…)`)."""
        return {
            "orchestrator.placement": self.placement,
            "talker.threads": self.talker_threads,
            "code2wav.threads": self.code2wav_threads,
            "talker.max_num_seqs": self.max_num_seqs,
            "talker.kv_cache_bytes": self.kv_cache_bytes,
            "talker.chunk_min_frames": self.chunk_min_frames,
            "talker.prefill_margin_ms": self.margin_ms,
            **({"llm.threads": self.llm_threads} if self.llm_threads else {}),
        }


def derive_overrides(
    probe: DeviceProbe,
    geometry: KvGeometry,
    *,
    weights_bytes: int = 0,
    sequence_limit: int = 4,
    with_llm: bool = False,
) -> Overrides:
    """The deploy settings that follow from the device.

    :param geometry: of the talker that will be served.
    :param weights_bytes: resident weights of the models that will be served.
    :param sequence_limit: the configured bound on talker sequences.
    :param with_llm: whether a language stage shares the cores.
    """
    kv_bytes = max(_LEAST_KV_BYTES, (probe.memory_bytes - _BASE_BYTES - weights_bytes) // 4)
    fitting = geometry.tokens_in(kv_bytes) // SENTENCE_TOKENS
    sequences = max(1, min(sequence_limit, fitting))
    placement, talker, code2wav, llm = _share_cores(probe.cores, with_llm)
    chunk_min, margin = _caution(probe)
    return Overrides(
        placement=placement,
        talker_threads=talker,
        code2wav_threads=code2wav,
        llm_threads=llm,
        max_num_seqs=sequences,
        kv_cache_bytes=min(kv_bytes, sequences * SENTENCE_TOKENS * geometry.bytes_per_token),
        chunk_min_frames=chunk_min,
        margin_ms=margin,
    )


def _share_cores(cores: int, with_llm: bool) -> tuple[Literal["side_by_side", "colocate"], int, int, int]:
    if cores == 1:
        return "colocate", 1, 1, 1
    # With two cores the language stage has none of its own and lives on what the speech stages leave, on both of them.
    llm = max(2, cores // 2) if with_llm else 0
    speech = max(2, cores - llm)
    code2wav = min(_MOST_CODE2WAV_THREADS, speech // 2)
    return "side_by_side", min(_MOST_TALKER_THREADS, speech - code2wav), code2wav, llm


def _caution(probe: DeviceProbe) -> tuple[int, float]:
    # The slower a core, the more the cost of a small chunk counts, and the more its step times scatter.
    if {"avx512f", "avx512bw"} <= probe.features or "amx_int8" in probe.features:
        chunk_min, margin = 2, 50.0
    elif "avx2" in probe.features or "asimddp" in probe.features:
        chunk_min, margin = 2, 80.0
    else:
        chunk_min, margin = 4, 160.0
    return chunk_min, margin if probe.cores > 1 else 2 * margin
