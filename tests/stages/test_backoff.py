from __future__ import annotations

from ouzel.stages.backoff import Backoff


def test_pauses_double_up_to_the_longest_until_a_stage_has_proven_itself() -> None:
    now = [0.0]
    backoff = Backoff(0.5, 3.0, lambda: now[0])
    assert [backoff.down() for _ in range(4)] == [0.5, 1.0, 2.0, 3.0]
    backoff.up()
    now[0] += 5.9
    assert backoff.down() == 3.0, "it served, but not for long"
    backoff.up()
    now[0] += 6.0
    assert [backoff.down(), backoff.down()] == [0.5, 1.0]


def test_no_pause_stays_no_pause() -> None:
    backoff = Backoff(0.0, 3.0)
    assert [backoff.down() for _ in range(3)] == [0.0, 0.0, 0.0]
