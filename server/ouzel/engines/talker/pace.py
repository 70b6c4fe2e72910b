"""How fast this device is, followed as it changes: what the prefill throttle reckons with."""

from __future__ import annotations

__all__ = ["Pace"]

_NEW = 0.2  # weight of the newest measurement


class Pace:
    """Seconds for one step of speaking streams, and for one row of a prompt."""

    __slots__ = ("row_s", "step_s")

    def __init__(self) -> None:
        self.step_s = 0.0
        self.row_s = 0.0

    def stepped(self, seconds: float) -> None:
        self.step_s = _follow(self.step_s, seconds)

    def prefilled(self, rows: int, seconds: float) -> None:
        self.row_s = _follow(self.row_s, seconds / rows)


def _follow(known: float, found: float) -> float:
    return found if known == 0 else known + _NEW * (found - known)
