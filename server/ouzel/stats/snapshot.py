"""What step statistics say at one moment, by value: readable, mergeable, JSON and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from ouzel.stats.histogram import quantile
from ouzel.stats.phases import Phase

__all__ = ["Series", "Snapshot", "merge"]


@dataclass(frozen=True, slots=True)
class Series:
    """Durations of one kind, in nanoseconds."""

    #: how often it was entered
    count: int = 0
    #: all durations together
    total_ns: int = 0
    #: the longest: within one step for a phase of the step, else of one occurrence
    max_ns: int = 0
    #: bucket → observations, see `histogram`
    buckets: Mapping[int, int] = field(default_factory=dict)

    @property
    def p50_ns(self) -> int:
        return min(quantile(self.buckets, 0.5), self.max_ns)

    @property
    def p90_ns(self) -> int:
        return min(quantile(self.buckets, 0.9), self.max_ns)

    def __add__(self, other: Series) -> Series:
        return Series(
            self.count + other.count,
            self.total_ns + other.total_ns,
            max(self.max_ns, other.max_ns),
            dict(Counter(self.buckets) + Counter(other.buckets)),
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The statistics of one process.

    `step` is the engine's whole step. The times in `inside` add up to it exactly, `Phase.OTHER` being what no phase
    claimed. `beside` holds what happened outside any step: waiting in a queue, a hop, dispatch.
    """

    #: the process's role: talker, code2wav, …
    process: str
    #: codec frames made, the unit that the table divides by
    frames: int
    step: Series
    inside: Mapping[Phase, Series]
    beside: Mapping[Phase, Series]

    def to_json(self) -> dict[str, Any]:
        return {
            "process": self.process,
            "frames": self.frames,
            "step": _series_to_json(self.step),
            "inside": {phase.value: _series_to_json(series) for phase, series in self.inside.items()},
            "beside": {phase.value: _series_to_json(series) for phase, series in self.beside.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Snapshot:
        """:raises KeyError, ValueError: when `data` isn't what `to_json` gives."""
        return cls(
            data["process"],
            data["frames"],
            _series_from_json(data["step"]),
            {Phase(name): _series_from_json(series) for name, series in data["inside"].items()},
            {Phase(name): _series_from_json(series) for name, series in data["beside"].items()},
        )


def merge(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """One snapshot for each role, in the order of their names: the incarnations of a restarted stage are added up."""
    by_process = sorted(snapshots, key=lambda snapshot: snapshot.process)
    return [_sum(process, list(group)) for process, group in groupby(by_process, key=lambda snapshot: snapshot.process)]


def _sum(process: str, parts: list[Snapshot]) -> Snapshot:
    return Snapshot(
        process,
        sum(part.frames for part in parts),
        sum((part.step for part in parts), Series()),
        _sum_of_phases([part.inside for part in parts]),
        _sum_of_phases([part.beside for part in parts]),
    )


def _sum_of_phases(parts: list[Mapping[Phase, Series]]) -> dict[Phase, Series]:
    return {
        phase: sum((part[phase] for part in parts if phase in part), Series())
        for phase in Phase
        if any(phase in part for part in parts)
    }


def _series_to_json(series: Series) -> dict[str, Any]:
    return {
        "count": series.count,
        "total_ns": series.total_ns,
        "max_ns": series.max_ns,
        "p50_ns": series.p50_ns,  # this and the next for readers: they follow from the buckets
        "p90_ns": series.p90_ns,
        "buckets": {str(bucket): count for bucket, count in series.buckets.items()},
    }


def _series_from_json(data: Mapping[str, Any]) -> Series:
    buckets = {int(bucket): count for bucket, count in data["buckets"].items()}
    return Series(data["count"], data["total_ns"], data["max_ns"], buckets)
