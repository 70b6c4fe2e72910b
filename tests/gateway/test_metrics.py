from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ouzel.gateway.metrics import Metrics
from ouzel.gateway.prometheus import Counter, Histogram, render
from ouzel.gateway.timing import StepLog, Timing
from ouzel.stats.phases import Phase


@given(st.lists(st.floats(0, 20)), st.lists(st.floats(0, 10), min_size=1, max_size=5, unique=True).map(sorted))
def test_a_histogram_counts_what_it_saw(values: list[float], bounds: list[float]) -> None:
    histogram = Histogram("h", "A histogram.", bounds)
    for value in values:
        histogram.observe(value)
    lines = render([histogram]).splitlines()[2:]
    counts = [float(line.rsplit(" ", 1)[1]) for line in lines]
    assert counts[: len(bounds)] == [sum(value <= bound for value in values) for bound in bounds]
    assert counts[len(bounds)] == counts[-1] == len(values)


def test_labels_are_escaped() -> None:
    counter = Counter("c", "A counter.", ("name",))
    counter.add('a"b\\c\nd')
    assert render([counter]).splitlines()[2] == r'c{name="a\"b\\c\nd"} 1'


def test_a_missed_frame_and_a_starved_one_are_told_apart() -> None:
    metrics = Metrics()
    slow = {Phase.BACKBONE: 170_000_000, Phase.QUEUE: 900_000_000}
    metrics.piece(Timing(frame=0, frames=2, audio_ms=160, phases=slow))
    metrics.piece(Timing(frame=2, frames=2, audio_ms=160, phases={Phase.QUEUE: 900_000_000}, starved_ns=240_000_000))
    page = metrics.page()
    assert "\nouzel_frame_budget_missed_total 2\n" in page
    assert "\nouzel_text_starved_frames_total 3\n" in page


def test_gaps_decide_the_continuity() -> None:
    metrics = Metrics()
    metrics.sounded(2.0, 4.0, [0.03, 0.12])
    page = metrics.page()
    assert 'continuity_ok_total{threshold_ms="200"} 1' in page
    assert 'threshold_ms="100"' not in page
    assert "\nouzel_tts_underrun_seconds_sum 0.15\n" in page
    assert 'ouzel_tts_real_time_factor_bucket{le="0.5"} 1' in page


def test_the_step_log_forgets_the_oldest() -> None:
    log = StepLog(most=2)
    first = log.open("a")
    first.append(Timing(frame=0, frames=1, audio_ms=80))
    log.open("b")
    assert log.find("a") == first
    log.open("c")
    assert (log.find("a"), log.find("b"), log.find("c")) == (None, [], [])
