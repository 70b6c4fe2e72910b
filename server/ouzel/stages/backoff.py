"""The pause before a dead stage is started again."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Backoff"]

#: A stage that served this many times the longest pause has proven itself: its next death is a first one.
_PROVEN = 2


class Backoff:
    """Doubles from `first_s` up to `longest_s`."""

    __slots__ = ("_clock", "_first_s", "_longest_s", "_next_s", "_up_since")

    def __init__(self, first_s: float, longest_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._first_s = first_s
        self._longest_s = max(first_s, longest_s)
        self._clock = clock
        self._next_s = first_s
        self._up_since: float | None = None

    def up(self) -> None:
        """The stage serves."""
        self._up_since = self._clock()

    def down(self) -> float:
        """The stage died: seconds until it may be started again."""
        if self._up_since is not None and self._clock() - self._up_since >= _PROVEN * self._longest_s:
            self._next_s = self._first_s
        self._up_since = None
        pause = self._next_s
        self._next_s = min(self._longest_s, 2 * pause) if pause else 0.0
        return pause
