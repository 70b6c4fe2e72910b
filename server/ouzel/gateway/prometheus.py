"""Counters, gauges and histograms in Prometheus's text format. One thread, one process, no registry of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

__all__ = ["CONTENT_TYPE", "Counter", "Gauge", "Histogram", "Labels", "Metric", "ReadCounter", "render"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]


class Metric(ABC):
    """One name with its help and its label names."""

    kind = ""

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self._help = help
        self._labels = tuple(labels)

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self._help}"
        yield f"# TYPE {self.name} {self.kind}"
        yield from self.samples()

    @abstractmethod
    def samples(self) -> Iterator[str]:
        """A line for each value that it has."""

    def _sample(self, values: Labels, value: float, *, suffix: str = "", extra: str = "") -> str:
        pairs = [f'{name}="{_escaped(one)}"' for name, one in zip(self._labels, values, strict=True)]
        inside = ",".join([*pairs, *([extra] if extra else [])])
        return f"{self.name}{suffix}{{{inside}}} {value:g}" if inside else f"{self.name}{suffix} {value:g}"


class Counter(Metric):
    """Only grows."""

    kind = "counter"

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, help, labels)
        # Without labels it is there from the start: a rate needs its zero.
        self._values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, *labels: str, by: float = 1) -> None:
        self._values[labels] = self._values.get(labels, 0) + by

    def samples(self) -> Iterator[str]:
        return (self._sample(labels, value) for labels, value in self._values.items())


class Gauge(Metric):
    """What it is now; read when asked for."""

    kind = "gauge"

    def __init__(
        self, name: str, help: str, read: Callable[[], dict[Labels, float]], labels: Sequence[str] = ()
    ) -> None:
        super().__init__(name, help, labels)
        self._read = read

    def samples(self) -> Iterator[str]:
        return (self._sample(labels, value) for labels, value in self._read().items())


class ReadCounter(Gauge):
    """A counter that someone else keeps."""

    kind = "counter"


class Histogram(Metric):
    """How often a value fell into each bucket."""

    kind = "histogram"

    def __init__(self, name: str, help: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        super().__init__(name, help, labels)
        self._bounds = tuple(bounds)
        self._counts: dict[Labels, list[int]] = {} if labels else {(): self._empty()}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        self._counts.setdefault(labels, self._empty())[bisect_left(self._bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0) + value

    def samples(self) -> Iterator[str]:
        for labels, counts in self._counts.items():
            for bound, count in zip([*map(_number, self._bounds), "+Inf"], accumulate(counts), strict=True):
                yield self._sample(labels, count, suffix="_bucket", extra=f'le="{bound}"')
            yield self._sample(labels, self._sums.get(labels, 0), suffix="_sum")
            yield self._sample(labels, sum(counts), suffix="_count")

    def _empty(self) -> list[int]:
        return [0] * (len(self._bounds) + 1)


def render(metrics: Sequence[Metric]) -> str:
    """The whole page."""
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines())


def _number(bound: float) -> str:
    return f"{bound:g}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
