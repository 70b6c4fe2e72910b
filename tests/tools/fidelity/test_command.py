"""The whole command on a tiny Llama, against a forward pass in plain PyTorch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result
from plain_llama import PlainLlama
from safetensors.torch import load_file, save_file
from tiny_llama import write_llama
from typer.testing import CliRunner

from ouzel.cli import app
from ouzel.tools.fidelity.measure import Exam

TEXT = "The river keeps its own time, and whoever lives beside it learns to keep it too. " * 3
WINDOW, TOKENS = 64, 8


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and one whose weights were rounded to 32nds."""
    top = tmp_path_factory.mktemp("models")
    write_llama(top / "whole")
    write_llama(top / "rounded")
    weights = load_file(top / "whole/model.safetensors")
    rounded = {name: torch.round(weight * 32) / 32 for name, weight in weights.items()}
    save_file(rounded, top / "rounded/model.safetensors")
    (top / "text").write_text(TEXT)
    return top


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["fidelity", *map(str, arguments)])


@pytest.fixture(scope="module")
def measured(folders: Path) -> tuple[Result, dict[str, dict[str, Any]]]:
    """The rounded one beside the whole one, which is said to expand it and doesn't."""
    sizes = ("--window", WINDOW, "--tokens", TOKENS, "--threads", 1, "--set", "llm.dtype=float32")
    what = (folders / "rounded", "--reference", folders / "whole", "--text", folders / "text", "--label", "noise")
    pair = ("--expanded", f"{folders / 'rounded'}={folders / 'whole'}", "--json", folders / "figures")
    done = run(*what, *sizes, *pair)
    return done, {result["build"]: result for result in json.loads((folders / "figures").read_text())}


@pytest.mark.llm
@pytest.mark.timeout(200)
@pytest.mark.parametrize("name", ["whole", "rounded"])
def test_perplexity_is_that_of_a_plain_forward_pass(folders: Path, measured: Any, name: str) -> None:
    exam, model = exam_of(folders), PlainLlama(folders / name)
    scores = [
        float(row[token])
        for window in exam.windows
        for row, token in zip(model.logprobs(window)[WINDOW // 2 - 1 : -1], window[WINDOW // 2 :], strict=True)
    ]
    found = measured[1][name]
    assert found["tokens_scored"] == len(scores) == 6 * WINDOW // 2
    assert found["perplexity"] == pytest.approx(math.exp(-sum(scores) / len(scores)), rel=1e-4)


@pytest.mark.llm
def test_greedy_continuations_part_where_plain_ones_do(folders: Path, measured: Any) -> None:
    exam = exam_of(folders)
    whole, rounded = (
        [PlainLlama(folders / name).greedy(prompt, TOKENS, exam.stops) for prompt in exam.prompts]
        for name in ("whole", "rounded")
    )
    equal = sum(one == other for one, other in zip(whole, rounded, strict=True))
    found = measured[1]["rounded"]
    assert 0 < equal < 12
    assert (found["greedy_equal"], found["greedy_prompts"], found["greedy_tokens"]) == (equal, 12, TOKENS)
    assert 0 < found["greedy_mean_tokens"] < TOKENS


@pytest.mark.llm
def test_the_reference_loses_nothing_against_itself(measured: Any) -> None:
    found = measured[1]["whole"]
    assert (found["perplexity_loss_percent"], found["greedy_equal"], found["bits_per_weight"]) == (0, 12, 32)
    assert (found["engine"], found["label"], found["expands"]) == ("vllm", "noise", None)


@pytest.mark.llm
def test_a_checkpoint_that_does_not_expand_another_is_said(measured: Any) -> None:
    done, found = measured
    assert found["rounded"]["expands"] == "whole"
    assert found["rounded"]["expansion_percent"] > 0.2
    assert done.exit_code == 1
    assert "rounded expands whole and its perplexity is" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "what is to be measured?"),
        (("--gguf", "x.gguf"), "give --reference"),
        (("x", "--set", "llm.eager"), "expected NAME=VALUE"),
        (("--expanded", "x"), "expected FOLDER=QUANTIZED"),
        (("x", "--set", "llm.quantization=ouzel_w4a16"), "the folder that `ouzel quantize` writes"),
        ((str(Path(__file__).parent), "--text", "/no/such"), "--text /no/such is no file"),
        ((str(Path(__file__).parent), "--json", "/no/such/f"), "there is no folder /no/such"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def exam_of(folders: Path) -> Exam:
    return Exam.of(folders / "whole", text=folders / "text", window=WINDOW, tokens=TOKENS)
