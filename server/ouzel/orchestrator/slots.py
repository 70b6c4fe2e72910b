"""Slots and epochs: how many requests are open at once, and how their utterances are told apart."""

from __future__ import annotations

import heapq
from itertools import count

from ouzel.errors import BusyError

__all__ = ["Slots"]


class Slots:
    """As many slots as requests may run and wait; the lowest free one is used next, so a table of them stays small."""

    __slots__ = ("_epochs", "_free", "_running", "bound")

    def __init__(self, running: int, waiting: int) -> None:
        self.bound = running + waiting
        self._running = running
        self._free = list(range(self.bound))
        self._epochs = count(1)

    @property
    def taken(self) -> int:
        return self.bound - len(self._free)

    def take(self) -> int:
        """A slot.

        :raises BusyError: when as many requests are open as may run and wait.
        """
        if not self._free:
            waiting = self.bound - self._running
            raise BusyError(f"{self._running} requests are running and {waiting} waiting, which is the bound")
        return heapq.heappop(self._free)

    def give_back(self, slot: int) -> None:
        heapq.heappush(self._free, slot)

    def next_epoch(self) -> int:
        """A number that no utterance of this server had before."""
        return next(self._epochs)
