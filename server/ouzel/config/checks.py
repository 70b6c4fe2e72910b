"""Rules about values that both a profile and a request must keep."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["MAX_CHUNK_FRAMES", "schedule_fault"]

#: 8 s of audio. Rings and buffers are sized for it.
MAX_CHUNK_FRAMES = 100


def schedule_fault(sizes: Sequence[int]) -> str | None:
    """What is wrong with chunk sizes in frames, or None: 1 to 100 each, at least one, never decreasing."""
    if not sizes:
        return "give at least one chunk size"
    for before, size in zip((1, *sizes), sizes, strict=False):
        if not 1 <= size <= MAX_CHUNK_FRAMES:
            return f"{size} frames is outside 1 to {MAX_CHUNK_FRAMES}"
        if size < before:
            return f"{size} comes after {before}, and sizes never decrease"
    return None
