"""How long an utterance may get: a talker that misses its end of speech must not talk to its hard maximum."""

from __future__ import annotations

import math

__all__ = ["FRAMES_PER_SECOND", "frame_limit"]

FRAMES_PER_SECOND = 12.5


def frame_limit(
    letters: int,
    *,
    letters_per_second: float = 15.0,
    factor: float = 2.5,
    extra_seconds: float = 2.0,
) -> int:
    """Frames after which an utterance of `letters` letters ends with finish reason `length`.

    The speaking time at the voice's rate, `factor` times over for a slow speaker, plus `extra_seconds` for the pauses
    of a short one.
    """
    return math.ceil((letters / letters_per_second * factor + extra_seconds) * FRAMES_PER_SECOND)
