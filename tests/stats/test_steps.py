from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.stats.phases import Phase
from ouzel.stats.snapshot import Series
from ouzel.stats.steps import NULL, StepStats


class Clock:
    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        return self.now


def totals(series: dict[Phase, Series]) -> dict[Phase, tuple[int, int]]:
    return {phase: (one.count, one.total_ns) for phase, one in series.items()}


def test_what_no_phase_claims_is_other() -> None:
    clock = Clock()
    stats = StepStats("talker", clock)
    for _ in range(2):
        with stats.step():
            clock.now += 1
            with stats.phase(Phase.BACKBONE):
                clock.now += 10
            for _ in range(3):
                with stats.phase(Phase.PREDICTOR):
                    clock.now += 5
            clock.now += 2
        clock.now += 1_000  # between steps: nobody's
        stats.made(1)
    snapshot = stats.snapshot()
    assert totals(dict(snapshot.inside)) == {
        Phase.BACKBONE: (2, 20), Phase.PREDICTOR: (6, 30), Phase.OTHER: (2, 6),
    }  # fmt: skip
    assert (snapshot.step.count, snapshot.step.total_ns, snapshot.step.max_ns) == (2, 56, 28)
    assert (snapshot.process, snapshot.frames) == ("talker", 2)


def test_a_phase_inside_a_phase_takes_its_time_away() -> None:
    clock = Clock()
    stats = StepStats("talker", clock)
    with stats.step(), stats.phase(Phase.PREFILL):
        clock.now += 3
        with stats.phase(Phase.BACKBONE):
            clock.now += 4
        clock.now += 5
    assert totals(dict(stats.snapshot().inside))[Phase.PREFILL] == (1, 8)


def test_spread_is_over_steps() -> None:
    clock = Clock()
    stats = StepStats("talker", clock)
    for ns in (1, 2, 2, 3, 9):
        with stats.step(), stats.phase(Phase.SAMPLE):
            clock.now += ns
    sample = stats.snapshot().inside[Phase.SAMPLE]
    assert (sample.p50_ns, sample.p90_ns, sample.max_ns) == (2, 9, 9)


def test_outside_a_step_is_beside_it() -> None:
    clock = Clock()
    stats = StepStats("orchestrator", clock)
    with stats.phase(Phase.DISPATCH):
        clock.now += 7
    stats.record(Phase.HOP, 40)
    stats.record(Phase.HOP, 60)
    snapshot = stats.snapshot()
    assert totals(dict(snapshot.beside)) == {Phase.HOP: (2, 100), Phase.DISPATCH: (1, 7)}
    assert not snapshot.inside and snapshot.step == Series()


def test_a_step_that_raises_is_closed() -> None:
    clock = Clock()
    stats = StepStats("talker", clock)
    with suppress(ZeroDivisionError), stats.step(), stats.phase(Phase.BACKBONE):
        clock.now += 5
        raise ZeroDivisionError
    with stats.step():
        clock.now += 1
    assert stats.snapshot().step.total_ns == 6


def test_a_step_inside_a_step_is_refused() -> None:
    stats = StepStats("talker", Clock())
    with stats.step(), pytest.raises(RuntimeError, match="cannot begin inside other"):
        stats.step().__enter__()


def test_a_snapshot_is_a_value() -> None:
    stats = StepStats("talker", Clock())
    before = stats.snapshot()
    with stats.step():
        stats.made(1)
    stats.record(Phase.QUEUE, 1)
    assert (before.frames, before.step.count, dict(before.beside)) == (0, 0, {})


PHASES = st.sampled_from([phase for phase in Phase if phase is not Phase.OTHER])
TREES = st.recursive(st.just([]), lambda inner: st.lists(st.tuples(PHASES, inner), max_size=3), max_leaves=12)


@given(st.lists(TREES, max_size=4), st.data())
def test_the_phases_add_up_to_the_steps(steps: list[list[object]], data: st.DataObject) -> None:
    clock = Clock()
    stats = StepStats("talker", clock)
    began = clock.now

    def tick() -> None:
        clock.now += data.draw(st.integers(0, 1000))

    def run(tree: list[object]) -> None:
        tick()
        for phase, inner in tree:  # type: ignore[misc]
            with stats.phase(phase):
                run(inner)
            tick()

    for tree in steps:
        with stats.step():
            run(tree)
    snapshot = stats.snapshot()
    assert sum(series.total_ns for series in snapshot.inside.values()) == snapshot.step.total_ns == clock.now - began
    assert snapshot.step.count == len(steps)


def test_statistics_that_are_off_allocate_nothing() -> None:
    assert NULL.phase(Phase.BACKBONE) is NULL.phase(Phase.CODEC) is NULL.step()
    with NULL.step(), NULL.phase(Phase.BACKBONE):
        NULL.record(Phase.HOP, 1)
        NULL.made(1)
