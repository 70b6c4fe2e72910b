from __future__ import annotations

from pathlib import Path

import pytest
import tiny_spark
import torch
from spark_reference import ALL, Traits, logprobs

WINDOW = 32
#: a token longer than the window, so that every trait is at work
PROMPT = tiny_spark.scenarios()["tool call"][: WINDOW + 1]


@pytest.fixture(scope="module")
def tied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_spark.write_tiny(tmp_path_factory.mktemp("spark") / "tied")


def ask(folder: Path, ids: list[int], traits: Traits = ALL, last: int = 0) -> torch.Tensor:
    return logprobs(tiny_spark.config(folder), tiny_spark.Stored(folder), ids, traits, last)


def test_it_gives_log_probabilities(tied: Path) -> None:
    found = ask(tied, PROMPT)
    assert found.shape == (len(PROMPT), 1024)
    assert torch.allclose(found.exp().sum(-1), torch.ones(len(PROMPT)))


def test_the_last_can_be_had_alone(tied: Path) -> None:
    assert torch.allclose(ask(tied, PROMPT, last=3), ask(tied, PROMPT)[-3:], atol=1e-5)


def test_a_later_token_changes_nothing_before_it(tied: Path) -> None:
    assert torch.allclose(ask(tied, [*PROMPT, 5])[:-1], ask(tied, PROMPT), atol=1e-5)


@pytest.mark.parametrize("trait", ["window", "partial_rotary", "gate", "layer_pattern"])
def test_each_trait_tells(tied: Path, trait: str) -> None:
    assert (ask(tied, PROMPT) - ask(tied, PROMPT, Traits(**{trait: False}))).abs().max() > 0.1


def test_the_window_counts_the_token_itself(tied: Path) -> None:
    within = PROMPT[1:]
    assert torch.equal(ask(tied, within), ask(tied, within, Traits(window=False)))


def test_an_untied_head_is_read(tied: Path, tmp_path: Path) -> None:
    untied = tiny_spark.write_tiny(tmp_path / "untied", tied=False)
    assert (ask(tied, PROMPT) - ask(untied, PROMPT)).abs().max() > 0.1
