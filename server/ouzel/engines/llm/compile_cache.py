"""Let vLLM load what it compiled before.

Its loader ends with `finalize_loading` on the compiled function. The one that the CPU backend stores has no such
method; the loader takes the AttributeError for a broken cache, and each start compiles again (82 s instead of 11 s on
two cores).
"""

from __future__ import annotations

from torch._dynamo import aot_compile_types

__all__ = ["mend_compile_cache"]

_NAME = "finalize_loading"


def mend_compile_cache() -> bool:
    """Attach the missing method, which has nothing to do; where upstream has one, leave it. Whether it was missing."""
    compiled = aot_compile_types.BundledAOTAutogradSerializableCallable
    if hasattr(compiled, _NAME):
        return False
    setattr(compiled, _NAME, _finalize_loading)
    return True


def _finalize_loading(compiled: aot_compile_types.BundledAOTAutogradSerializableCallable, vllm_config: object) -> None:
    """Nothing is left to load, unless what it wraps says so."""
    wrapped = getattr(compiled.compiled_fn, _NAME, None)
    if wrapped is not None:
        wrapped(vllm_config)
