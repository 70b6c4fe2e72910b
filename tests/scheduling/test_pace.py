from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ouzel.scheduling import ChunkSchedule, fit_schedule, gentler, simulate, stall_free_step_ms

RAMP = ChunkSchedule((2, 4, 8, 16, 25))
schedules = st.lists(st.integers(1, 40), min_size=1, max_size=7).map(lambda sizes: ChunkSchedule(tuple(sorted(sizes))))
modes = st.booleans()


@pytest.mark.parametrize(
    ("sizes", "decode_ms", "tolerated"),
    [
        ((1, 25), 0.0, 3.2),
        ((2, 4, 8, 16, 25), 0.0, 40.0),
        ((2, 4, 8, 16, 25), 13.0, 33.5),
        ((2, 2, 4, 8, 16, 25), 0.0, 42.667),
        ((2, 2, 3, 4, 6, 8, 12, 16, 25), 0.0, 55.789),
        ((25,), 0.0, 80.0),
        ((2, 4, 8, 16, 25), 90.0, 0.0),
        ((1, 25), 13.0, 0.0),
        ((1, 25), 3.1, 0.224),
        ((1, 25), 3.25, 0.0),
    ],
)
def test_the_arithmetic_of_the_schedule(sizes: tuple[int, ...], decode_ms: float, tolerated: float) -> None:
    assert stall_free_step_ms(ChunkSchedule(sizes), decode_ms) == pytest.approx(tolerated, abs=5e-4)


def test_taking_turns_the_codec_takes_its_time_from_the_talker() -> None:
    assert stall_free_step_ms(RAMP, 13.0, colocated=True) == pytest.approx(27.0)


@settings(max_examples=400)
@given(schedule=schedules, decode_ms=st.floats(0, 85), colocated=modes, frames=st.integers(1, 500))
def test_a_tolerated_step_never_stalls(schedule: ChunkSchedule, decode_ms: float, colocated: bool, frames: int) -> None:
    step_ms = stall_free_step_ms(schedule, decode_ms, colocated=colocated)
    assume(step_ms > 0)
    played = simulate(schedule, step_ms, decode_ms, frames=frames, colocated=colocated)
    assert played.stall_ms == pytest.approx(0, abs=1e-6)


@given(schedule=schedules, decode_ms=st.floats(0, 79), colocated=modes)
def test_a_slower_step_than_tolerated_does_stall(schedule: ChunkSchedule, decode_ms: float, colocated: bool) -> None:
    step_ms = stall_free_step_ms(schedule, decode_ms, colocated=colocated) + 0.1
    played = simulate(schedule, step_ms, decode_ms, frames=200_000, colocated=colocated)
    assert played.stall_ms > 0


def test_the_simulation_of_one_to_twenty_five_has_its_hole() -> None:
    played = simulate(ChunkSchedule((1, 25)), 10.0, 0.0, frames=76, prefill_ms=30.0)
    assert played.first_audio_ms == 40.0
    assert played.gaps_ms == (170.0, 0.0, 0.0)
    assert simulate(ChunkSchedule((1, 25)), 10.0, 0.0, frames=76, start_delay_ms=170.0).stall_ms == 0


@given(step_ms=st.floats(1, 80), decode_ms=st.floats(0, 40), colocated=modes)
def test_a_gentler_schedule_exists_up_to_80_ms_and_does_not_stall(
    step_ms: float, decode_ms: float, colocated: bool
) -> None:
    found = gentler(RAMP, step_ms, decode_ms, colocated=colocated)
    if colocated and step_ms + decode_ms > 80:
        assert found is None
        return
    assert found is not None
    assert found.steady == 25 and list(found.sizes) == sorted(found.sizes)
    played = simulate(found, step_ms, decode_ms, frames=1000, colocated=colocated)
    assert played.stall_ms == pytest.approx(0, abs=1e-6)


def test_a_gap_shifts_all_that_follows() -> None:
    assert simulate(ChunkSchedule((1,)), 100.0, 0.0, frames=4).gaps_ms == (20.0, 20.0, 20.0)


def test_a_device_that_keeps_up_is_served_as_wanted() -> None:
    plan = fit_schedule(RAMP, 33.0, 13.0, frames=100, prefill_ms=20.0)
    assert plan.schedule == RAMP
    assert (plan.start_delay_ms, plan.reason) == (0.0, "")
    assert plan.first_audio_ms == pytest.approx(20 + 2 * (33 + 13))


def test_a_slower_device_gets_a_gentler_schedule_and_is_told() -> None:
    plan = fit_schedule(RAMP, 50.0, 13.0, frames=100)
    assert plan.schedule.sizes == (2, 2, 3, 5, 7, 11, 16, 23, 25)
    assert plan.start_delay_ms == 0
    assert plan.reason.startswith("a talker step of 50.0 ms is above the 33.5 ms that [2, 4, 8, 16, 25] tolerates")


@given(step_ms=st.floats(81, 400), decode_ms=st.floats(0, 120), frames=st.integers(30, 300), colocated=modes)
def test_a_device_slower_than_speech_gets_a_delay_that_hides_every_gap(
    step_ms: float, decode_ms: float, frames: int, colocated: bool
) -> None:
    plan = fit_schedule(RAMP, step_ms, decode_ms, frames=frames, colocated=colocated)
    assert plan.start_delay_ms > 0 and "no schedule helps" in plan.reason
    played = simulate(
        plan.schedule,
        step_ms,
        decode_ms,
        frames=frames,
        start_delay_ms=plan.start_delay_ms,
        colocated=colocated,
    )
    assert played.stall_ms == pytest.approx(0, abs=1e-6)
    assert played.first_audio_ms == pytest.approx(plan.first_audio_ms)
