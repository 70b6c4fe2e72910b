from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.errors import ConfigError, RequestError
from ouzel.scheduling import ChunkSchedule

RAMP = ChunkSchedule((2, 4, 8, 16, 25))
schedules = st.lists(st.integers(1, 100), min_size=1, max_size=8).map(lambda sizes: ChunkSchedule(tuple(sorted(sizes))))


def test_the_ramp_leaves_at_its_thresholds() -> None:
    emitted, left = 0, []
    for made in range(1, 106):
        if frames := RAMP.due(emitted, made):
            emitted += frames
            left.append(emitted)
    assert left == [2, 6, 14, 30, 55, 80, 105]


def test_everything_above_the_last_threshold_leaves_at_once() -> None:
    assert RAMP.due(emitted=2, made=5) == 0
    assert RAMP.due(emitted=2, made=13) == 11
    assert RAMP.next_threshold(13) == 14
    assert RAMP.next_threshold(60) == 80


def test_the_end_takes_what_is_left_even_nothing() -> None:
    assert RAMP.due(emitted=6, made=9, finished=True) == 3
    assert RAMP.due(emitted=6, made=6, finished=True) == 0


@given(schedule=schedules, frames=st.integers(0, 600))
def test_sizes_never_decrease_and_reach_the_steady_size(schedule: ChunkSchedule, frames: int) -> None:
    emitted, sizes = 0, []
    for made in range(1, frames + 1):
        if size := schedule.due(emitted, made):
            sizes.append(size)
            emitted += size
    assert sizes == sorted(sizes)
    assert frames < sum(schedule.sizes) or sizes[-1] == schedule.steady
    rest = schedule.due(emitted, frames, finished=True)
    assert list(schedule.chunks(frames)) == [*sizes, *([rest] if rest else [])]


@given(schedule=schedules, jumps=st.lists(st.integers(1, 40), max_size=40))
def test_frames_that_come_in_jumps_leave_once_and_never_late(schedule: ChunkSchedule, jumps: list[int]) -> None:
    emitted = made = 0
    for jump in jumps:
        made += jump
        emitted += schedule.due(emitted, made)
        assert emitted <= made < schedule.next_threshold(emitted)


@pytest.mark.parametrize(
    ("sizes", "fault"),
    [
        ((), "give at least one chunk size"),
        ((0, 2), "0 frames is outside 1 to 100"),
        ((2, 101), "101 frames is outside 1 to 100"),
        ((4, 2), "2 comes after 4, and sizes never decrease"),
    ],
)
def test_an_invalid_schedule_is_an_error_that_says_why(sizes: tuple[int, ...], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        ChunkSchedule(sizes)
    with pytest.raises(RequestError, match=fault) as caught:
        ChunkSchedule.from_request(list(sizes), "chunk_frames")
    assert caught.value.param == "chunk_frames"


def test_a_minimum_lifts_the_start_of_the_ramp() -> None:
    assert RAMP.with_minimum(6).sizes == (6, 6, 8, 16, 25)
    assert RAMP.with_minimum(40).sizes == (40,) * 5
