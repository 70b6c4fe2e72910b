from __future__ import annotations

from dataclasses import dataclass

from ouzel.engines.llm.logprobs import token_logprobs


@dataclass
class Found:
    logprob: float
    rank: int | None
    decoded_token: str | None


def test_the_best_come_first_and_what_was_drawn_needs_not_be_among_them() -> None:
    step = {5: Found(-3.0, 3, "c"), 1: Found(-0.1, 1, "a"), 2: Found(-2.0, 2, "é")}
    (one,) = token_logprobs([5], [step], 2)  # type: ignore[list-item]
    assert (one.token, one.logprob) == ("c", -3.0)
    assert [(top.token, top.bytes) for top in one.top] == [("a", (97,)), ("é", (195, 169))]


def test_what_json_has_no_word_for_is_the_least() -> None:
    step = {1: Found(float("-inf"), 1, None), 2: Found(float("nan"), 2, "x")}
    (one,) = token_logprobs([1], [step], 2)  # type: ignore[list-item]
    assert [top.logprob for top in one.top] == [-9999.0, -9999.0]
    assert (one.token, one.logprob) == ("", -9999.0)
