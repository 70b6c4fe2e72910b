from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from ouzel.cli import app
from ouzel.models.qwen3_tts.checkpoint import TalkerSide, load_talker_side
from ouzel.models.qwen3_tts.prompt_spec import PromptSpec
from ouzel.tools.fidelity.voice import Judged, _as_itself, divergence, judge, speak

TEXT = "Hello there, the World!"


@pytest.fixture(scope="module")
def side(tiny_voice: Path) -> TalkerSide:
    return load_talker_side(tiny_voice)


@pytest.fixture(scope="module")
def spec(side: TalkerSide) -> PromptSpec:
    return _as_itself(side, TEXT)


@pytest.fixture(scope="module")
def frames(side: TalkerSide, spec: PromptSpec) -> Tensor:
    return speak(side, spec, seed=3, most=12)


@torch.inference_mode()
def test_given_frames_are_judged_as_a_whole_pass_judges_them(
    side: TalkerSide, spec: PromptSpec, frames: Tensor
) -> None:
    prompt = side.prompts().build(spec)
    texts = [prompt.trailing[place] if place < len(prompt.trailing) else prompt.pad for place in range(len(frames))]
    rows = torch.cat([prompt.rows, side.predictor.embed_sum(frames, side.talker) + torch.stack(texts)])
    hidden = side.talker(rows[None])[0][len(prompt.rows) - 1 : -1]
    found = judge(side, spec, frames)
    torch.testing.assert_close(found.c0, side.talker.logits(hidden).log_softmax(-1), atol=1e-4, rtol=1e-4)
    groups = side.predictor(hidden, frames, side.talker).log_softmax(-1)
    torch.testing.assert_close(found.groups, groups, atol=1e-4, rtol=1e-4)


def test_a_seed_says_the_same_again_and_no_more_than_allowed(
    side: TalkerSide, spec: PromptSpec, frames: Tensor
) -> None:
    assert torch.equal(speak(side, spec, seed=3, most=12), frames)
    assert len(speak(side, spec, seed=3, most=5)) == 5


def test_divergence_is_of_the_whole_from_the_packed() -> None:
    def judged(*c0: list[float]) -> Judged:
        rows = torch.tensor(c0).log()
        return Judged(rows, rows[:, None])

    found = divergence([judged([0.5, 0.5])], [judged([0.25, 0.75])], "w4a16-g32")
    assert found.c0 == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert found.groups == pytest.approx(found.c0)
    two = divergence([judged([0.9, 0.1]), judged([0.1, 0.9])], [judged([0.9, 0.1]), judged([0.9, 0.1])], "w4a16-g32")
    assert (two.frames, two.same_c0, two.same_groups) == (2, 0.5, 0.5)


def test_the_command_compares_each_size_of_group(tmp_path: Path) -> None:
    sizes = ("--sentences", "1", "--frames", "8", "--group", "32", "--group", "64")
    done = CliRunner().invoke(app, ["voice-fidelity", *sizes, "--json", str(tmp_path / "figures")])
    assert done.exit_code == 0, done.output
    found = {one["weights"]: one for one in json.loads((tmp_path / "figures").read_text())}
    assert list(found) == ["bfloat16", "w4a16-g32", "w4a16-g64"]
    assert {one["frames"] for one in found.values()} == {8}
    assert 0 < found["bfloat16"]["groups"] < found["w4a16-g32"]["groups"] < 1


def test_another_group_is_refused() -> None:
    done = CliRunner().invoke(app, ["voice-fidelity", "--group", "48"])
    assert done.exit_code == 2
    assert "group 48 is not one of 128, 64, 32" in done.stderr
