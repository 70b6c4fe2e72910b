"""Every setting of a deployment: its type, bounds and default. Whatever isn't here is an error.

Topology is code; what is here may differ between devices. A setting's name is its dotted path: `talker.threads` in a
message, `talker: {threads: 1}` in YAML, `OUZEL_TALKER__THREADS=1` in the environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "Code2WavConfig",
    "DeployConfig",
    "GatewayConfig",
    "LimitsConfig",
    "LlmConfig",
    "OrchestratorConfig",
    "TalkerConfig",
]


def setting(default: Any, *, ge: float | None = None, le: float | None = None, multiple: int | None = None) -> Any:
    """A dataclass field with bounds; for a list they hold for each entry."""
    return field(default=default, metadata={"ge": ge, "le": le, "multiple": multiple})


@dataclass(frozen=True, slots=True)
class OrchestratorConfig:
    """How the stages are started, watched and placed."""

    #: Talker and code2wav in processes of their own, or in one that alternates between them.
    placement: Literal["side_by_side", "colocate"] = "side_by_side"
    #: All stages in the server's own process, for tests and measurements.
    in_process: bool = False
    #: Let the device's probe correct what the profile says (`scheduling.derive_overrides`).
    derive: bool = True
    parallel_stage_init: bool = True
    #: A starting stage that reports no progress for this long has failed.
    init_deadline_s: float = setting(120.0, ge=1)
    #: Pause before a dead stage is started again; doubles up to the second figure.
    restart_backoff_s: float = setting(0.5, ge=0)
    restart_backoff_max_s: float = setting(30.0, ge=0)
    #: Time that stages get to finish when the server stops.
    stop_grace_s: float = setting(2.0, ge=0)


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """What one request, and all of them together, may take."""

    max_text_letters: int = setting(4096, ge=1)
    #: Requests that may wait beside the running ones; the next one is refused.
    max_waiting: int = setting(16, ge=0)
    #: A request that makes no progress for this long ends with an error.
    progress_deadline_s: float = setting(10.0, ge=0.1)
    #: Audio kept for a client that reads slowly; its talker waits beyond it.
    buffer_frames: int = setting(250, ge=1)
    #: Frame limit of a text: letters / letters_per_second × factor + extra.
    letters_per_second: float = setting(15.0, ge=1)
    frame_limit_factor: float = setting(2.5, ge=1)
    frame_limit_extra_s: float = setting(2.0, ge=0)


@dataclass(frozen=True, slots=True)
class TalkerConfig:
    """The stage that turns text into codec frames."""

    #: The engine core: what builds it, as module:function.
    factory: str = "ouzel.engines.talker:build"
    threads: int = setting(1, ge=1)
    nice: int = setting(0, ge=0, le=19)
    #: Cores to stay on; null for all that the server may use.
    cpus: tuple[int, ...] | None = setting(None, ge=0)
    dtype: Literal["float32", "bfloat16"] = "float32"
    #: Put the layers of talker and code predictor into four bits when they are loaded.
    quantization: Literal["int4"] | None = None
    #: Inputs that share a scale; fewer in layers whose width demands it.
    quantization_group: Literal[128, 64, 32] = 64
    max_num_seqs: int = setting(4, ge=1)
    #: Memory for all KV caches; null for what max_num_seqs sentences take.
    kv_cache_bytes: int | None = setting(None, ge=1)
    #: Frames in each chunk; the last size is kept.
    chunk_frames: tuple[int, ...] = (2, 4, 8, 16, 25)
    #: Lifts smaller chunks to this size.
    chunk_min_frames: int = setting(1, ge=1, le=100)
    #: Prompt rows in one step: how long a new request may hold up running streams, an abort or a watchdog.
    prefill_rows: int = setting(32, ge=1)
    #: Audio that every listener keeps when a prefill is let in, and how long one is held back at most.
    prefill_margin_ms: float = setting(50.0, ge=0)
    prefill_max_hold_s: float = setting(2.0, ge=0)
    #: Ring of codes to code2wav; a chunk may take almost half of it.
    ring_bytes: int = setting(1 << 18, ge=1 << 16, multiple=64)


@dataclass(frozen=True, slots=True)
class Code2WavConfig:
    """The stage that turns codec frames into samples."""

    factory: str = "ouzel.engines.code2wav:build"
    threads: int = setting(1, ge=1)
    nice: int = setting(0, ge=0, le=19)
    cpus: tuple[int, ...] | None = setting(None, ge=0)
    #: Streams decoded in one step.
    max_streams: int = setting(1, ge=1)
    #: Ring of samples to the server; a chunk of 100 frames in float32 must fit in almost half of it.
    ring_bytes: int = setting(1 << 21, ge=1 << 21, multiple=64)


@dataclass(frozen=True, slots=True)
class LlmConfig:
    """The stage that writes text, or the endpoint that does it instead."""

    factory: str = "ouzel.engines.llm:build"
    #: Checkpoint folder; null for speech alone.
    model: str | None = None
    threads: int = setting(1, ge=1)
    #: How long a thread waits awake for the others, 0 to sleep at once. A step meets some hundred times (x86 alone).
    spin_ms: int = setting(1, ge=0, le=100)
    #: Speech goes first.
    nice: int = setting(5, ge=0, le=19)
    cpus: tuple[int, ...] | None = setting(None, ge=0)
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    #: A method that vLLM knows by this name; null for what the checkpoint says.
    #: `ouzel_w4a16` puts a checkpoint in floating point into four bits while it is loaded.
    quantization: str | None = None
    #: Inputs that share a scale where that is done; fewer in layers whose width demands it.
    quantization_group: Literal[128, 64, 32] = 128
    #: Tokens of prompt and answer together; null for the checkpoint's own, as far as the cache holds them.
    max_model_len: int | None = setting(None, ge=1)
    max_num_seqs: int = setting(4, ge=1)
    #: Memory for the KV of all requests; all of it is resident.
    kv_cache_bytes: int = setting(256 << 20, ge=1)
    #: Tokens in one step: how long a prompt may hold up running requests, an abort or a watchdog.
    prefill_tokens: int = setting(256, ge=16)
    #: Compile nothing: starts sooner, writes more slowly.
    eager: bool = False
    #: Let vLLM load what it compiled at an earlier start (`engines.llm.compile_cache`).
    compile_cache_fix: bool = True
    #: vLLM's fused norms as opaque operations; slower end to end where it was measured.
    cpu_ir_ops: bool = False
    #: Requests that may wait beside the running ones; the next one is refused.
    max_waiting: int = setting(16, ge=0)
    #: A start that reports no progress for this long has failed; the first one compiles, and that is one phase.
    init_deadline_s: float = setting(600.0, ge=1)
    #: An OpenAI-compatible endpoint, http://…/v1, that takes the place of the stage.
    url: str | None = None
    #: The endpoint's name of its model; null for the first that it lists.
    url_model: str | None = None


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The server's face."""

    #: A bind beyond loopback needs an API key, or `insecure`.
    host: str = "127.0.0.1"
    #: 0 for any free one.
    port: int = setting(8080, ge=0, le=65535)
    insecure: bool = False
    #: Origins that a browser may call from; none by default, "*" for all.
    cors_origins: tuple[str, ...] = ()
    max_body_bytes: int = setting(1 << 20, ge=1024)
    max_sockets: int = setting(64, ge=1)
    #: A WebSocket on which nothing happens for this long is closed.
    idle_s: float = setting(300.0, ge=1)
    #: A client that takes no audio for this long, with its buffer full, is dropped.
    send_deadline_s: float = setting(30.0, ge=0.1)


@dataclass(frozen=True, slots=True)
class DeployConfig:
    """All settings of a deployment."""

    orchestrator: OrchestratorConfig = OrchestratorConfig()
    limits: LimitsConfig = LimitsConfig()
    talker: TalkerConfig = TalkerConfig()
    code2wav: Code2WavConfig = Code2WavConfig()
    llm: LlmConfig = LlmConfig()
    gateway: GatewayConfig = GatewayConfig()
