"""What vLLM reads from the environment while it is imported, set for a stage of one process."""

from __future__ import annotations

import logging
import warnings
from collections.abc import MutableMapping

__all__ = ["prepare_environment"]

_SETTINGS = {
    # One process: the CPU backend turns the executor "uni" into processes of its own otherwise.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # A device says nothing to anyone, and loads nothing that isn't in the folder.
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
#: Whoever looks for a fault may want to hear more.
_QUIET = {"VLLM_LOGGING_LEVEL": "ERROR", "TRANSFORMERS_VERBOSITY": "error", "TORCH_CPP_LOG_LEVEL": "ERROR"}
#: In GiB, and beats `llm.kv_cache_bytes`.
_OVERRIDING = "VLLM_CPU_KVCACHE_SPACE"


def prepare_environment(environ: MutableMapping[str, str]) -> None:
    """Call it before the first import of vLLM."""
    environ.update(_SETTINGS)
    environ.pop(_OVERRIDING, None)
    for name, value in _QUIET.items():
        environ.setdefault(name, value)
    # What is said while vLLM is imported, before it has read the variable.
    for name in ("vllm", "torch._library"):
        logging.getLogger(name).setLevel(environ["VLLM_LOGGING_LEVEL"].upper())
    warnings.filterwarnings("ignore", module=r"(vllm|torch|transformers)\b")
