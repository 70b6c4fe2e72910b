"""Deadlines that measure lack of progress, not length: a long utterance is no fault, a silent one is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

__all__ = ["ProgressDeadline", "next_expiry"]


class ProgressDeadline:
    """Expires when nothing has moved for `limit_s` seconds of the injected clock."""

    __slots__ = ("_clock", "_limit_s", "_moved_at")

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._moved_at = clock()

    def progress(self) -> None:
        """Something moved: the whole limit is ahead again."""
        self._moved_at = self._clock()

    @property
    def idle_s(self) -> float:
        """Seconds since the last progress."""
        return self._clock() - self._moved_at

    @property
    def remaining_s(self) -> float:
        """Seconds until it expires, 0 once it has."""
        return max(0.0, self._limit_s - self.idle_s)

    @property
    def expired(self) -> bool:
        return self.idle_s >= self._limit_s


def next_expiry(deadlines: Iterable[ProgressDeadline]) -> float | None:
    """Seconds until the first of them expires: how long a loop may sleep; None when there is none."""
    return min((deadline.remaining_s for deadline in deadlines), default=None)
