from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2] / "benchmarks/llm"
sys.path.insert(0, str(HERE))

from fidelity_builds import answers_of, marks  # noqa: E402  # found through the line above

from ouzel.tools.fidelity.answers import Answers  # noqa: E402
from ouzel.tools.fidelity.measure import Build, Exam, Result  # noqa: E402


def result(build: str, loss: float, bits: float = 4.5, **more: object) -> Result:
    return Result(
        build=build,
        engine="vllm",
        label="rotated",
        bits_per_weight=bits,
        read_bytes=1,
        stored_bytes=1,
        perplexity=10 + loss / 10,
        tokens_scored=1,
        perplexity_loss_percent=loss,
        **more,  # type: ignore[arg-type]
    )


def judged(*results: Result) -> dict[str, bool]:
    return {mark["what"]: mark["reached"] for mark in marks({one.build: one for one in results})}


@pytest.mark.parametrize(("loss", "reached"), [(19.9, True), (20.1, False)])
def test_w4a16_is_held_to_q4_0(loss: float, reached: bool) -> None:
    said = judged(result("w4a16-g32", loss), result("q4_0", 20))
    assert said == {"loss of W4A16 g32, at most Q4_0's": reached}


@pytest.mark.parametrize(("loss", "reached"), [(14.9, True), (15.1, False)])
def test_awq_is_held_to_the_line_at_its_bits(loss: float, reached: bool) -> None:
    said = judged(result("awq-g32", loss, 4.75), result("q4_0", 20, 4.5), result("q4_k_m", 10, 5))
    assert said == {"loss of awq-g32 at 4.75 bits, at most the line from Q4_0 to Q4_K_M": reached}


@pytest.mark.parametrize(("loss", "reached"), [(15, True), (15.1, False)])
def test_the_search_wins_back_half_of_what_symmetry_costs(loss: float, reached: bool) -> None:
    said = judged(result("gptq-plain-g64", 20), result("w4a16-g64", 10), result("gptq-search-g64", loss))
    assert list(said.values()) == [reached]


@pytest.mark.parametrize(("apart", "reached"), [(0.19, True), (0.21, False)])
def test_an_expanded_build_is_held_to_what_it_expands(apart: float, reached: bool) -> None:
    said = judged(result("awq-g64-expanded", 5, expands="awq-g64", expansion_percent=apart))
    assert said == {"awq-g64-expanded in % from awq-g64": reached}


def test_a_build_is_asked_once_and_again_when_the_question_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ask(exam: Exam, build: Build) -> Answers:
        asked.append(build.name)
        return Answers([[-1.0]], [[5]])

    monkeypatch.setattr(Exam, "ask", ask)
    build, kept = Build(Path("x")), tmp_path / "answers/x.json"
    exam, other = (Exam([(1, 2)], [(3,)], (), tokens, 1) for tokens in (8, 16))
    answers = [answers_of(build, exam, kept, again=again) for again in (False, False, True)]
    assert answers == [Answers([[-1.0]], [[5]])] * 3
    assert len(asked) == 2
    answers_of(build, other, kept, again=False)
    assert len(asked) == 3
