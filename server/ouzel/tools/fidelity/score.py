"""Figures of one build, and of two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Agreement", "agreement", "loss_percent", "perplexity"]


def perplexity(logprobs: Sequence[Sequence[float]]) -> float:
    """exp of the mean negative logprob of the scored tokens, by window, in natural logarithms."""
    scored = [value for window in logprobs for value in window]
    return math.exp(-math.fsum(scored) / len(scored))


def loss_percent(found: float, reference: float) -> float:
    """How much larger a perplexity is than its reference's."""
    return 100 * (found / reference - 1)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Greedy continuations beside those of a reference."""

    equal: int
    prompts: int
    #: until they part, or end together
    mean_tokens: float


def agreement(found: Sequence[Sequence[int]], reference: Sequence[Sequence[int]]) -> Agreement:
    equal = sum(tuple(ours) == tuple(theirs) for ours, theirs in zip(found, reference, strict=True))
    common = [_common(ours, theirs) for ours, theirs in zip(found, reference, strict=True)]
    return Agreement(equal, len(common), sum(common) / len(common))


def _common(ours: Sequence[int], theirs: Sequence[int]) -> int:
    pairs = list(zip(ours, theirs, strict=False))
    return next((place for place, (one, other) in enumerate(pairs) if one != other), len(pairs))
