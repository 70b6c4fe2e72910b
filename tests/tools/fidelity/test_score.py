from __future__ import annotations

import math

import numpy as np
import pytest

from ouzel.tools.fidelity.llama_engine import scored
from ouzel.tools.fidelity.score import agreement, loss_percent, perplexity


def test_perplexity_is_of_all_tokens_not_of_windows() -> None:
    logprobs = [[math.log(1 / 2)] * 3, [math.log(1 / 16)]]
    assert perplexity(logprobs) == pytest.approx(2 ** (7 / 4))


def test_a_certain_model_has_perplexity_1() -> None:
    assert perplexity([[0.0, 0.0]]) == 1


def test_loss_is_relative_to_the_reference() -> None:
    assert loss_percent(11, 10) == pytest.approx(10)
    assert loss_percent(9.9, 10) == pytest.approx(-1)


def test_agreement_counts_equal_continuations_and_tokens_until_they_part() -> None:
    reference = [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2], [5, 6, 7, 8]]
    found = agreement([[1, 2, 3, 4], [1, 2, 9, 4], [1, 2, 3, 4], [0, 6, 7, 8]], reference)
    assert (found.equal, found.prompts, found.mean_tokens) == (1, 4, (4 + 2 + 2 + 0) / 4)


def test_logits_become_logprobs_of_the_tokens() -> None:
    logits = np.array([[0.0, math.log(3)], [1000.0, 1000.0]], np.float32)
    assert scored(logits, [1, 0]) == pytest.approx([math.log(3 / 4), math.log(1 / 2)])
