from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.scheduling import Credits, PlaybackCursor, Runway, granted_frames, may_prefill


def test_slack_is_the_audio_delivered_less_the_time_since_playback_began() -> None:
    cursor = PlaybackCursor()
    assert cursor.slack(5.0) == math.inf
    assert cursor.deliver(2, now=10.0) == 0
    assert cursor.slack(10.0) == pytest.approx(0.16)
    assert cursor.deliver(4, now=10.1) == 0
    assert cursor.slack(10.1) == pytest.approx(0.38)
    assert cursor.slack(10.6) == pytest.approx(-0.12)


def test_a_late_chunk_is_a_gap_and_playback_shifts_by_it() -> None:
    cursor = PlaybackCursor()
    cursor.deliver(1, now=0.0)
    assert cursor.deliver(1, now=0.1) == pytest.approx(0.02)
    assert cursor.gaps_s == [pytest.approx(0.02)]
    assert cursor.slack(0.1) == pytest.approx(0.08)


def test_the_played_position_stays_within_what_was_delivered() -> None:
    cursor = PlaybackCursor()
    assert cursor.played_frames(1.0) == 0
    cursor.deliver(3, now=1.0)
    assert [cursor.played_frames(1.0 + t) for t in (0.0, 0.079, 0.08, 0.16, 0.24, 9.0)] == [0, 0, 1, 2, 3, 3]


@given(st.lists(st.tuples(st.integers(1, 25), st.floats(0, 3)), min_size=1, max_size=30))
def test_gaps_and_audio_make_up_the_whole_time(deliveries: list[tuple[int, float]]) -> None:
    cursor, now, frames = PlaybackCursor(), 0.0, 0
    for count, pause in deliveries:
        now += pause
        frames += count
        cursor.deliver(count, now)
    begun = deliveries[0][1]
    assert cursor.slack(begun) == pytest.approx(frames * 0.08 + sum(cursor.gaps_s))


def test_credits_are_grants_less_frames_made() -> None:
    credits = Credits(granted=granted_frames(drained=0, buffer_frames=50))
    credits.made = 48
    assert credits.available == 2
    credits.grant(granted_frames(drained=10, buffer_frames=50))
    credits.grant(55)
    assert credits.available == 12
    credits.made = 61
    assert credits.available == 0


@pytest.mark.parametrize(("slack_s", "allowed"), [(0.349, False), (0.351, True), (math.inf, True), (-1.0, False)])
def test_a_prefill_waits_while_it_would_eat_a_streams_margin(slack_s: float, allowed: bool) -> None:
    stream = Runway(slack_s=slack_s, next_chunk_s=0.2)
    assert may_prefill([stream], piece_s=0.1, margin_s=0.05) is allowed
    assert may_prefill([Runway(9.0, 0.2), stream], piece_s=0.1, margin_s=0.05) is allowed


def test_nothing_holds_a_prefill_back_without_a_stream_or_for_ever() -> None:
    assert may_prefill([], piece_s=9.0, margin_s=1.0)
    short = [Runway(slack_s=0.0, next_chunk_s=0.2)]
    assert not may_prefill(short, piece_s=0.1, margin_s=0.05, waited_s=1.9, max_hold_s=2.0)
    assert may_prefill(short, piece_s=0.1, margin_s=0.05, waited_s=2.0, max_hold_s=2.0)
