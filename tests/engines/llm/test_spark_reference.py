from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
import tiny_spark
import torch
from safetensors.torch import load_file
from spark_reference import ALL, Traits, logprobs

#: a token longer than the window, so that every trait is at work
PROMPT = tiny_spark.scenarios()["tool call"][: tiny_spark.WINDOW + 1]

weights = cache(lambda tied: tiny_spark.weights(tiny_spark.config(tied=tied)))


def ask(ids: list[int], *, tied: bool = True, traits: Traits = ALL) -> torch.Tensor:
    return logprobs(tiny_spark.config(tied=tied), weights(tied), ids, traits)


def test_it_gives_log_probabilities() -> None:
    assert torch.allclose(ask(PROMPT).exp().sum(-1), torch.ones(len(PROMPT)))


def test_a_later_token_changes_nothing_before_it() -> None:
    assert torch.allclose(ask([*PROMPT, 5])[:-1], ask(PROMPT), atol=1e-5)


@pytest.mark.parametrize("trait", ["window", "partial_rotary", "gate", "layer_pattern"])
def test_each_trait_tells(trait: str) -> None:
    assert (ask(PROMPT)[-1] - ask(PROMPT, traits=Traits(**{trait: False}))[-1]).abs().max() > 0.1


def test_the_window_counts_the_token_itself() -> None:
    within = PROMPT[1:]
    assert torch.equal(ask(within), ask(within, traits=Traits(window=False)))


def test_an_untied_head_is_read() -> None:
    assert (ask(PROMPT) - ask(PROMPT, tied=False)).abs().max() > 0.1


def test_a_written_checkpoint_holds_these_weights(tmp_path: Path) -> None:
    folder = tiny_spark.write_checkpoint(tmp_path / "spark", tied=False)
    assert json.loads((folder / "config.json").read_text()) == tiny_spark.config(tied=False)
    stored = load_file(folder / "model.safetensors")
    assert stored.keys() == weights(False).keys()
    assert all(torch.equal(stored[name], weight) for name, weight in weights(False).items())
