"""How long an utterance may get: a talker that misses its end of speech must not talk to its hard maximum."""

from __future__ import annotations

import math

from ouzel.errors import RequestError

__all__ = ["FRAMES_PER_SECOND", "frame_limit"]

FRAMES_PER_SECOND = 12.5


def frame_limit(
    letters: int,
    *,
    letters_per_second: float = 15.0,
    factor: float = 2.5,
    extra_seconds: float = 2.0,
    user_cap: int | None = None,
) -> int:
    """Frames after which an utterance of `letters` letters ends with finish reason `length`.

    The speaking time at the voice's rate, `factor` times over for a slow speaker, plus `extra_seconds` for the pauses
    of a short one. An explicit `user_cap` in frames takes its place, longer or shorter.

    :raises RequestError: when `user_cap` is below 1.
    """
    if user_cap is not None:
        if user_cap < 1:
            raise RequestError(f"max_frames {user_cap}: give at least 1", param="max_frames")
        return user_cap
    return math.ceil((letters / letters_per_second * factor + extra_seconds) * FRAMES_PER_SECOND)
