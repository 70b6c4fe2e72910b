"""The attribution table: how the milliseconds of a frame divide, as shares of its 80 ms."""

from __future__ import annotations

from collections.abc import Sequence

from ouzel.stats.phases import FRAME_NS, Phase
from ouzel.stats.snapshot import Series, Snapshot

__all__ = ["attribution_table"]

_NAME, _COLUMN = 12, 12


def attribution_table(snapshots: Sequence[Snapshot]) -> str:
    """One column for each process and one for all, in ms a frame; below it what happens beside the steps.

    The phases of a column add up to its step, `other` being what none of them claims. A process that makes no frames
    of its own is divided by the frames of the one that made most.
    """
    most = max((snapshot.frames for snapshot in snapshots), default=0)
    if not most:
        return "step statistics: no frame was made"
    lines = [*_steps(snapshots, most), "", *_occurrences(snapshots)]
    return "\n".join(line.rstrip() for line in lines).rstrip()


def _steps(snapshots: Sequence[Snapshot], most: int) -> list[str]:
    running = [snapshot for snapshot in snapshots if snapshot.step.count]
    frames = [snapshot.frames or most for snapshot in running]

    def row(name: str, series: list[Series]) -> str:
        times = [one.total_ns / count for one, count in zip(series, frames, strict=True)]
        cells = [f"{time / 1e6:.3f}" if time else "" for time in times]
        return _row(name, [*cells, f"{sum(times) / 1e6:.3f}", f"{100 * sum(times) / FRAME_NS:.1f} %"])

    phases = [phase for phase in Phase if any(phase in snapshot.inside for snapshot in running)]
    return [
        _row("ms a frame", [*(snapshot.process for snapshot in running), "all", "of 80 ms"]),
        *(row(phase, [snapshot.inside.get(phase, Series()) for snapshot in running]) for phase in phases),
        row("step", [snapshot.step for snapshot in running]),
        _row("frames", [str(snapshot.frames) for snapshot in running]),
    ]


def _occurrences(snapshots: Sequence[Snapshot]) -> list[str]:
    rows = [
        *((snapshot.process, "step", snapshot.step) for snapshot in snapshots if snapshot.step.count),
        *((snapshot.process, phase, series) for snapshot in snapshots for phase, series in snapshot.beside.items()),
    ]
    return [_row("ms each", ["of", "count", "mean", "p50", "p90", "max"])] + [
        _row(name, [process, str(series.count), *map(_ms, _spread(series))]) for process, name, series in rows
    ]


def _spread(series: Series) -> tuple[float, ...]:
    return series.total_ns / max(series.count, 1), series.p50_ns, series.p90_ns, series.max_ns


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3f}"


def _row(name: str, cells: Sequence[str]) -> str:
    return f"{name:<{_NAME}}" + "".join(f"{cell:>{_COLUMN}}" for cell in cells)
