"""A histogram of durations in fixed logarithmic buckets: bounded, and merged by adding."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["bucket_of", "quantile", "upper_bound"]

_SUB_BITS = 3  # eight buckets an octave: a quantile is at most an eighth too large
_SUB = 1 << _SUB_BITS


def bucket_of(ns: int) -> int:
    """The bucket of a duration; exact below 16 ns, then eight to each doubling."""
    shift = max(ns.bit_length() - _SUB_BITS - 1, 0)
    return (shift << _SUB_BITS) + (ns >> shift)


def upper_bound(bucket: int) -> int:
    """The longest duration that falls into a bucket."""
    shift = max((bucket >> _SUB_BITS) - 1, 0)
    return ((bucket - (shift << _SUB_BITS) + 1) << shift) - 1


def quantile(buckets: Mapping[int, int], q: float) -> int:
    """The duration that a share `q` of the observations doesn't exceed, at most an eighth too large; 0 if none."""
    left = q * sum(buckets.values())
    for bucket in sorted(buckets):
        left -= buckets[bucket]
        if left <= 0:
            return upper_bound(bucket)
    return 0
