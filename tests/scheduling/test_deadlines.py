from __future__ import annotations

from ouzel.scheduling import ProgressDeadline, next_expiry


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_only_silence_expires() -> None:
    clock = Clock()
    deadline = ProgressDeadline(10.0, clock)
    for _ in range(5):
        clock.now += 9.0
        assert not deadline.expired
        deadline.progress()
    clock.now += 4.0
    assert (deadline.idle_s, deadline.remaining_s) == (4.0, 6.0)
    clock.now += 6.0
    assert deadline.expired and deadline.remaining_s == 0


def test_a_loop_sleeps_until_the_first_expiry() -> None:
    clock = Clock()
    first = ProgressDeadline(5.0, clock)
    clock.now += 1.0
    second = ProgressDeadline(7.0, clock)
    assert next_expiry([second, first]) == 4.0
    assert next_expiry([]) is None
