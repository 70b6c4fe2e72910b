"""What is asked of llama.cpp, with a stand-in for it that has llama-cpp-python's manners."""

from __future__ import annotations

import math
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ouzel.errors import ConfigError
from ouzel.tools.fidelity.answers import Wish
from ouzel.tools.fidelity.llama_engine import answer

VOCABULARY = 7


class Llama:
    """Says that the next token is one more than the last, with odds of 3 to 1 for each other."""

    made: dict[str, Any]

    def __init__(self, model: str, **given: Any) -> None:
        type(self).made = given
        self.scores = np.full((given["n_ctx"], VOCABULARY), np.nan, np.float32)
        self.n_tokens = 0

    def reset(self) -> None:
        self.n_tokens = 0

    def eval(self, ids: list[int]) -> None:
        for token in ids:
            self.scores[self.n_tokens] = 0
            self.scores[self.n_tokens, (token + 1) % VOCABULARY] = math.log(3)
            self.n_tokens += 1


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("llama_cpp")
    module.Llama = Llama  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "llama_cpp", module)


def wish(**changes: Any) -> Wish:
    windows = ((0, 1, 2, 3), (2, 3, 5, 6))
    return Wish(
        **{"model": "x.gguf", "windows": windows, "context": 2, "prompts": ((4,), (0, 1)), "tokens": 5, **changes}
    )


@pytest.mark.usefixtures("stand_in")
def test_each_token_after_the_context_is_scored_by_those_before_it() -> None:
    likely, unlikely = math.log(3 / 9), math.log(1 / 9)
    found = answer(wish()).logprobs
    assert found[0] == pytest.approx([likely, likely])
    assert found[1] == pytest.approx([unlikely, likely])


@pytest.mark.usefixtures("stand_in")
def test_greedy_goes_on_from_each_prompt_alone_until_a_stop() -> None:
    assert answer(wish()).greedy == [[5, 6, 0, 1, 2], [2, 3, 4, 5, 6]]
    assert answer(wish(stops=(0, 4))).greedy == [[5, 6, 0], [2, 3, 4]]


@pytest.mark.usefixtures("stand_in")
def test_there_is_room_for_the_longest_and_all_logits_are_kept() -> None:
    answer(wish(threads=2))
    assert (Llama.made["n_ctx"], Llama.made["logits_all"], Llama.made["n_threads"]) == (7, True, 2)


def test_without_llama_cpp_python_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(ConfigError, match="needs llama-cpp-python"):
        answer(wish())
