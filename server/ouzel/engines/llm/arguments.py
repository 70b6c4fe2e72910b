"""From the deployment's settings to those of vLLM."""

from __future__ import annotations

from typing import Any

from ouzel.config.schema import LlmConfig
from ouzel.engines.llm.checkpoint import Checkpoint
from ouzel.quantization.groups import FORMAT

__all__ = ["BYTES_PER_VALUE", "IR_PROVIDER", "engine_arguments", "group_at_load"]

BYTES_PER_VALUE = {"float32": 4, "bfloat16": 2}
#: the name under which `ir_ops` registers its implementations
IR_PROVIDER = "ouzel_cpu"
#: vLLM fits it into the KV cache.
_AS_LONG_AS_POSSIBLE = -1


def group_at_load(settings: LlmConfig) -> int | None:
    """The most inputs that share a scale, where weights in floating point are put into four bits at load."""
    return settings.quantization_group if settings.quantization == FORMAT else None


def engine_arguments(checkpoint: Checkpoint, settings: LlmConfig, reasoning_parser: str | None) -> dict[str, Any]:
    """As keywords of vLLM's `EngineArgs`.

    :param reasoning_parser: by whose word a grammar waits until the model has thought
    """
    norms = {"rms_norm": [IR_PROVIDER], "fused_add_rms_norm": [IR_PROVIDER]} if settings.cpu_ir_ops else {}
    return {
        "model": str(checkpoint.folder),
        "dtype": settings.dtype,
        "quantization": settings.quantization,
        "hf_overrides": _quantized_at_load(checkpoint, settings),
        "max_model_len": settings.max_model_len or _AS_LONG_AS_POSSIBLE,
        "max_num_seqs": settings.max_num_seqs,
        # A step has room for a token of each request beside a piece of one prompt.
        "max_num_batched_tokens": max(settings.prefill_tokens, settings.max_num_seqs),
        "kv_cache_memory_bytes": settings.kv_cache_bytes,
        "enforce_eager": settings.eager,
        "distributed_executor_backend": "uni",
        "worker_cls": "ouzel.engines.llm.worker.SeededWorker",
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "structured_outputs_config": {"backend": "xgrammar", "reasoning_parser": reasoning_parser or ""},
        "kernel_config": {"ir_op_priority": norms},
        "use_tqdm_on_load": False,
    }


def _quantized_at_load(checkpoint: Checkpoint, settings: LlmConfig) -> dict[str, Any]:
    """What config.json would say; compiled graphs are kept apart by it."""
    group = group_at_load(settings)
    if group is None or checkpoint.quantization is not None:
        return {}
    return {"quantization_config": {"quant_method": FORMAT, "group_size": group, "at_load": True}}
