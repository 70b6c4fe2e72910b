"""The init timeline: which process spent how long in which phase of start-up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import monotonic_ns
from typing import Any

__all__ = ["InitTimeline", "Span", "render", "to_json"]

_BAR = 40


@dataclass(frozen=True, slots=True)
class Span:
    """One phase of one process's start."""

    process: str
    name: str
    #: on the machine's monotonic clock, which all processes share
    start_ns: int
    duration_ns: int


class InitTimeline:
    """The phases of this process's start, in the order in which they end."""

    def __init__(self, process: str, clock: Callable[[], int] = monotonic_ns) -> None:
        self._process = process
        self._clock = clock
        self._spans: list[Span] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase of start-up; one that fails is left out."""
        start = self._clock()
        yield
        self._spans.append(Span(self._process, name, start, self._clock() - start))

    @property
    def spans(self) -> tuple[Span, ...]:
        return tuple(self._spans)


def render(spans: Iterable[Span]) -> str:
    """The starts of all processes on one axis, whose zero is the first of them."""
    ordered = sorted(spans, key=lambda span: (span.start_ns, -span.duration_ns))
    if not ordered:
        return "init timeline: empty"
    zero = ordered[0].start_ns
    total = max(span.start_ns + span.duration_ns for span in ordered) - zero
    processes = max(7, *(len(span.process) for span in ordered))
    names = max(5, *(len(span.name) for span in ordered))
    lines = [f"{'process':<{processes}}  {'phase':<{names}}  {'from s':>8}  {'took s':>8}"]
    for span in ordered:
        start, took = (span.start_ns - zero) / 1e9, span.duration_ns / 1e9
        bar = _bar(span.start_ns - zero, span.duration_ns, total)
        lines.append(f"{span.process:<{processes}}  {span.name:<{names}}  {start:>8.3f}  {took:>8.3f}  {bar}")
    return "\n".join(lines)


def to_json(spans: Iterable[Span]) -> list[dict[str, Any]]:
    """The spans as JSON objects, times as they are on the machine's monotonic clock."""
    return [asdict(span) for span in spans]


def _bar(start_ns: int, duration_ns: int, total_ns: int) -> str:
    before = _BAR * start_ns // max(total_ns, 1)
    return " " * before + "█" * max(1, _BAR * duration_ns // max(total_ns, 1))
