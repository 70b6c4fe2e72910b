"""Whether a model fits, before it is loaded: a device without the memory swaps for minutes, or kills whom it likes."""

from __future__ import annotations

from pathlib import Path

from ouzel.config.probe import probe_device
from ouzel.errors import ConfigError

__all__ = ["available_bytes", "check_memory"]

#: Python, torch and vLLM before any weight, and what they compute with: 0.9 GB resident with a model of noise.
BASE_BYTES = 900 << 20


def available_bytes(root: Path = Path("/")) -> int:
    """What this process may still take: the kernel's estimate, within the control group's limit."""
    lines = (root / "proc/meminfo").read_text(encoding="utf-8").splitlines()
    free = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    limit = probe_device(root).memory_bytes
    return limit if free is None else min(free, limit)


def check_memory(weights_bytes: int, kv_cache_bytes: int, available: int) -> None:
    """:raises ConfigError: when weights, KV cache and vLLM itself need more than there is"""
    needed = weights_bytes + kv_cache_bytes + BASE_BYTES
    if needed > available:
        raise ConfigError(
            f"the language model needs {_gib(needed)} of memory ({_gib(weights_bytes)} weights, {_gib(kv_cache_bytes)} "
            f"llm.kv_cache_bytes, {_gib(BASE_BYTES)} vLLM) and {_gib(available)} are available: lower "
            "llm.kv_cache_bytes, or take a smaller model",
            param="llm.kv_cache_bytes",
        )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.2f} GiB"
