from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ouzel.stats.histogram import bucket_of, quantile, upper_bound

DURATION = st.integers(0, 2**50)


@given(DURATION)
def test_a_duration_lies_in_its_bucket(ns: int) -> None:
    bucket = bucket_of(ns)
    assert ns <= upper_bound(bucket) <= ns + ns // 8
    assert bucket == 0 or upper_bound(bucket - 1) < ns


@given(DURATION)
def test_the_number_of_buckets_is_bounded(ns: int) -> None:
    assert bucket_of(ns) < 400


@given(st.lists(DURATION, min_size=1), st.sampled_from([0.5, 0.9, 1.0]))
def test_a_quantile_is_at_most_an_eighth_too_large(durations: list[int], q: float) -> None:
    rank = max(1, -(-len(durations) * int(q * 10) // 10))
    exact = sorted(durations)[rank - 1]
    assert exact <= quantile(Counter(map(bucket_of, durations)), q) <= exact + exact // 8


def test_the_quantile_of_nothing_is_zero() -> None:
    assert quantile({}, 0.5) == 0
