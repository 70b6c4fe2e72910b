"""Logprobs as clients get them: text, bytes and a number that JSON has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ouzel.stages.language import TokenLogprob

if TYPE_CHECKING:
    from vllm.logprobs import Logprob

__all__ = ["LEAST", "token_logprobs"]

#: in place of minus infinity, which JSON has no word for
LEAST = -9999.0


def token_logprobs(
    ids: Sequence[int], found: Sequence[Mapping[int, Logprob]], alternatives: int
) -> tuple[TokenLogprob, ...]:
    """Each token with its most likely alternatives, itself among them where it is one."""
    made = []
    for token, ranked in zip(ids, found, strict=False):
        best = sorted(ranked.values(), key=lambda one: one.rank or 0)
        top = tuple(_entry(one) for one in best[:alternatives])
        made.append(_entry(ranked[token], top))
    return tuple(made)


def _entry(one: Logprob, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
    text = one.decoded_token or ""
    # NaN fails every comparison, so it ends at the least too.
    value = one.logprob if one.logprob >= LEAST else LEAST
    return TokenLogprob(token=text, bytes=tuple(text.encode("utf-8", errors="replace")), logprob=value, top=top)
