"""Step statistics: how long an engine's step spends in each phase, and nothing at all when nobody asks.

    with stats.step():
        with stats.phase(Phase.BACKBONE):
            ...
        stats.made(frames)

A phase inside a phase takes its time away from the outer one, so the phases of a step add up to the step.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter_ns
from typing import Protocol

from ouzel.stats.histogram import bucket_of
from ouzel.stats.phases import Phase
from ouzel.stats.snapshot import Series, Snapshot

__all__ = ["NULL", "NullStats", "Stats", "StepStats"]


class Stats(Protocol):
    """What an engine writes to; it belongs to one thread, and no phase is held open across an await."""

    def step(self) -> AbstractContextManager[None]:
        """One engine step, from its beginning to its end."""
        ...

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        """A phase; inside a step its time is part of that step."""
        ...

    def record(self, phase: Phase, ns: int) -> None:
        """A duration that was measured elsewhere, beside any step: a hop between processes, a wait."""
        ...

    def made(self, frames: int) -> None:
        """`frames` codec frames exist now."""
        ...

    def reset(self) -> None:
        """Count from nothing again; between two steps."""
        ...


class NullStats:
    """Statistics that are off: each call costs the same few nanoseconds, whatever happens."""

    def step(self) -> AbstractContextManager[None]:
        return _NOTHING

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        return _NOTHING

    def record(self, phase: Phase, ns: int) -> None:
        return None

    def made(self, frames: int) -> None:
        return None

    def reset(self) -> None:
        return None


_NOTHING = nullcontext()
NULL = NullStats()


class StepStats:
    """Statistics that are on: counters of bounded size, read by `snapshot`."""

    def __init__(self, process: str, clock: Callable[[], int] = perf_counter_ns) -> None:
        """:param clock: gives nanoseconds, and never goes back"""
        self._process = process
        self._clock = clock
        self._timers = {phase: _Timer(self, phase) for phase in Phase}
        self._step = _Step(self)
        self.reset()
        self._open: list[Phase] = []  # phases entered and not left, the innermost last
        self._since = 0  # when the innermost began, or began again
        self._spent: dict[Phase, int] = {}  # of the running step
        self._entered: dict[Phase, int] = {}

    def step(self) -> AbstractContextManager[None]:
        return self._step

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        return self._timers[phase]

    def record(self, phase: Phase, ns: int) -> None:
        self._beside.setdefault(phase, _Counter()).add(ns, 1)

    def made(self, frames: int) -> None:
        self._frames += frames

    def reset(self) -> None:
        self._frames = 0
        self._steps = _Counter()
        self._inside: dict[Phase, _Counter] = {}
        self._beside: dict[Phase, _Counter] = {}

    def snapshot(self) -> Snapshot:
        """Everything up to the last finished step, by value."""
        return Snapshot(
            self._process,
            self._frames,
            self._steps.series(),
            {phase: self._inside[phase].series() for phase in Phase if phase in self._inside},
            {phase: self._beside[phase].series() for phase in Phase if phase in self._beside},
        )

    def _enter(self, phase: Phase) -> None:
        now = self._clock()
        if self._open:
            self._spend(self._open[-1], now - self._since)
        self._entered[phase] = self._entered.get(phase, 0) + 1
        self._open.append(phase)
        self._since = now

    def _leave(self) -> None:
        now = self._clock()
        self._spend(self._open.pop(), now - self._since)
        self._since = now
        if not self._open:
            self._close(self._beside)

    def _begin_step(self) -> None:
        if self._open:
            raise RuntimeError(f"a step cannot begin inside {self._open[-1]}")
        # OTHER lies under everything that the step enters, and so collects what no phase claims.
        self._enter(Phase.OTHER)

    def _end_step(self) -> None:
        now = self._clock()
        self._spend(self._open.pop(), now - self._since)
        self._steps.add(sum(self._spent.values()), 1)
        self._close(self._inside)

    def _spend(self, phase: Phase, ns: int) -> None:
        self._spent[phase] = self._spent.get(phase, 0) + ns

    def _close(self, counters: dict[Phase, _Counter]) -> None:
        for phase, ns in self._spent.items():
            counters.setdefault(phase, _Counter()).add(ns, self._entered[phase])
        self._spent.clear()
        self._entered.clear()


class _Counter:
    __slots__ = ("buckets", "count", "max_ns", "total_ns")

    def __init__(self) -> None:
        self.count = self.total_ns = self.max_ns = 0
        self.buckets: dict[int, int] = {}

    def add(self, ns: int, entered: int) -> None:
        self.count += entered
        self.total_ns += ns
        self.max_ns = max(self.max_ns, ns)
        bucket = bucket_of(ns)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1

    def series(self) -> Series:
        return Series(self.count, self.total_ns, self.max_ns, dict(self.buckets))


class _Timer:
    """Entering and leaving one phase; without state of its own, so one serves every use."""

    __slots__ = ("_phase", "_stats")

    def __init__(self, stats: StepStats, phase: Phase) -> None:
        self._stats = stats
        self._phase = phase

    def __enter__(self) -> None:
        self._stats._enter(self._phase)

    def __exit__(self, *_: object) -> None:
        self._stats._leave()


class _Step:
    __slots__ = ("_stats",)

    def __init__(self, stats: StepStats) -> None:
        self._stats = stats

    def __enter__(self) -> None:
        self._stats._begin_step()

    def __exit__(self, *_: object) -> None:
        self._stats._end_step()
