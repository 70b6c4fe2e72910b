"""Spark on vLLM against the plain reference, in fp32: the same greedy tokens, and a bar on log-probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_spark
from compare_spark import BAR, MADE, compare, run
from spark_reference import Traits

pytestmark = [pytest.mark.llm, pytest.mark.timeout(900)]

SCENARIOS = tiny_spark.scenarios()
TRAITS = ["window", "partial_rotary", "gate", "layer_pattern"]
#: all of a prompt in one step, or in 39 steps, which cut in the midst of windows
PREFILLS = {"whole": 4096, "in pieces": 65}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("spark")
    return {name: tiny_spark.write_tiny(top / name, tied=name == "tied") for name in ("tied", "untied")}


@pytest.fixture(scope="module")
def runs(folders: dict[str, Path]) -> dict[str, Any]:
    """What vLLM makes, eagerly: of the tied checkpoint in each way of prefilling, and of the untied one."""
    wish = {"folder": str(folders["tied"]), "prompts": SCENARIOS, "eager": True, "context": 2560}
    wishes = {name: wish | {"prefill_tokens": tokens} for name, tokens in PREFILLS.items()}
    wishes["untied"] = wish | {"folder": str(folders["untied"]), "prefill_tokens": 4096}
    return dict(zip(wishes, run(list(wishes.values())), strict=True))


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("prefill", PREFILLS)
def test_it_says_what_the_reference_says(
    folders: dict[str, Path], runs: dict[str, Any], prefill: str, scenario: str
) -> None:
    found = compare(folders["tied"], runs[prefill]["made"][scenario], SCENARIOS[scenario])
    assert found.equal == MADE
    assert found.difference <= BAR


@pytest.mark.parametrize("trait", TRAITS)
def test_a_trait_left_out_would_be_seen(folders: dict[str, Path], runs: dict[str, Any], trait: str) -> None:
    made = runs["whole"]["made"]["tool call"]
    found = compare(folders["tied"], made, SCENARIOS["tool call"], Traits(**{trait: False}))
    assert found.difference > 100 * BAR


def test_an_untied_head_is_loaded(folders: dict[str, Path], runs: dict[str, Any]) -> None:
    found = compare(folders["untied"], runs["untied"]["made"]["short"], SCENARIOS["short"])
    assert found.equal == MADE
    assert found.difference <= BAR


def test_only_sliding_layers_have_a_window(runs: dict[str, Any]) -> None:
    assert runs["whole"]["windows"] == [32, 32, 32, None] * 2


@pytest.mark.slow
@pytest.mark.parametrize("fused_norms", [False, True])
def test_what_the_compiler_makes_of_it_says_the_same(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, fused_norms: bool
) -> None:
    monkeypatch.setenv("VLLM_DISABLE_COMPILE_CACHE", "1")
    wish = {"folder": str(folders["tied"]), "prompts": SCENARIOS, "eager": False, "context": 2560}
    (compiled,) = run([wish | {"prefill_tokens": 1024, "fused_norms": fused_norms}])
    for scenario, prompt in SCENARIOS.items():
        found = compare(folders["tied"], compiled["made"][scenario], prompt)
        assert found.equal == MADE
        assert found.difference <= BAR
