"""Times by phase that travel with a chunk, beside the statistics of the whole process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ouzel.stats.phases import Phase
from ouzel.stats.steps import Stats

__all__ = ["PhaseTimes"]


class PhaseTimes:
    """Passes each phase on to the statistics, and remembers it until `take`. Phases here don't nest."""

    def __init__(self, stats: Stats, clock: Callable[[], int]) -> None:
        self._stats = stats
        self._clock = clock
        self._ns: dict[Phase, int] = {}

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        start = self._clock()
        with self._stats.phase(phase):
            yield
        self._ns[phase] = self._ns.get(phase, 0) + self._clock() - start

    def take(self) -> dict[Phase, int]:
        """ns of each phase since the last take."""
        taken, self._ns = self._ns, {}
        return taken
