"""Every four-bit build of a model, and what each of them loses: one command, which goes on where it was stopped.

    python benchmarks/llm/fidelity_builds.py --work DIR [--model smollm2] [--rotate] [--json F]

Makes the builds in the work folder by the commands that make them for everybody, and measures each as `ouzel fidelity`
does: perplexity on the same windows of tokens, greedy continuations beside the model's own bf16, bits a weight. Some
are expanded to bf16 again, which must have the quantized one's perplexity. `--rotate` turns the residual stream by a
random orthogonal matrix first: the function stays, the weights leave the grid that they were shipped on. What a build
answered is kept beside it, so a second run measures only what is new; `--again` measures all.

Without llama-cpp-python the builds for llama.cpp are left out by name: --only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import builds

from ouzel.tools.fidelity.answers import Answers
from ouzel.tools.fidelity.measure import EXPANSION_PERCENT, Build, Exam, Result, expansion_percent, report
from ouzel.tools.model_store import find_model

QUANTIZED = (
    *("w4a16-g32", "w4a16-g64", "w4a16-g128", "w4a16-feedback-g32", "w4a16-feedback-g64"),
    *("gptq-plain-g64", "gptq-search-g64", "gptq-importance-g64", "gptq-feedback-g64"),
    *("awq-scaled-g64", "awq-g64", "awq-g32"),
    *("f16", "q4_k_m", "q4_0", "q8_0"),
)
#: those that are expanded to bf16 again, one of each layout
EXPANDED = ("w4a16-g64", "gptq-search-g64", "awq-g64")


def answers_of(build: Build, exam: Exam, kept: Path, *, again: bool) -> Answers:
    """What a build says, read where it was asked the same before."""
    asked = [list(map(list, exam.windows)), list(map(list, exam.prompts)), exam.tokens]
    if kept.exists() and not again:
        found = json.loads(kept.read_text())
        if found["asked"] == asked:
            return Answers(**found["answers"])
    answers = exam.ask(build)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"asked": asked, "answers": asdict(answers)}))
    return answers


def measure(options: argparse.Namespace) -> list[Result]:
    """Make, ask and compare one build after another."""
    shipped = find_model(options.model)
    label = "rotated" if options.rotate else "as shipped"
    folder = options.work / shipped.name / label.replace(" ", "-")
    source = builds.rotate(shipped, folder / "bf16") if options.rotate else shipped
    exam = Exam.of(source, tokens=options.tokens, threads=options.threads)
    answers: dict[str, Answers] = {}
    results = []

    def judge(name: str, path: Path) -> Result:
        build = Build(path)
        answers[name] = answers_of(build, exam, folder / "answers" / f"{name}.json", again=options.again)
        made = report(build, answers[name], tokens=exam.tokens, label=label, reference=answers["bf16"])
        return replace(made, build=name)

    def keep(result: Result) -> None:
        results.append(result)
        print(result.facts(), file=sys.stderr)
        if options.json:
            options.json.write_text(json.dumps([one.facts() for one in results], indent=1) + "\n")

    keep(judge("bf16", source))
    for name in options.only:
        made = builds.make(name, source, folder)
        keep(judge(name, made))
        if name in EXPANDED:
            whole = f"{name}-expanded"
            result = judge(whole, builds.expand(made, folder / whole))
            apart = expansion_percent(answers[whole], answers[name])
            keep(replace(result, expands=name, expansion_percent=apart))
    return results


def marks(results: Mapping[str, Result]) -> list[dict[str, Any]]:
    """What must be reached, as far as it was measured: each with its figure, its bound and whether it is reached."""
    loss = {name: result.perplexity_loss_percent or 0.0 for name, result in results.items()}
    said = []

    def check(what: str, figure: float, bound: float) -> None:
        said.append({"what": what, "figure": round(figure, 3), "bound": round(bound, 3), "reached": figure <= bound})

    if {"w4a16-g32", "q4_0"} <= loss.keys():
        check("loss of W4A16 g32, at most Q4_0's", loss["w4a16-g32"], loss["q4_0"])
    for name in ("awq-g32", "awq-g64"):
        if {name, "q4_0", "q4_k_m"} <= loss.keys():
            bits = {one: results[one].bits_per_weight for one in (name, "q4_0", "q4_k_m")}
            slope = (loss["q4_k_m"] - loss["q4_0"]) / (bits["q4_k_m"] - bits["q4_0"])
            line = loss["q4_0"] + slope * (bits[name] - bits["q4_0"])
            check(f"loss of {name} at {bits[name]:.2f} bits, at most the line from Q4_0 to Q4_K_M", loss[name], line)
    if {"gptq-plain-g64", "gptq-search-g64", "w4a16-g64"} <= loss.keys():
        half = (loss["gptq-plain-g64"] + loss["w4a16-g64"]) / 2
        check("loss of GPTQ with search, at most half way from plain to asymmetric", loss["gptq-search-g64"], half)
    for name, result in results.items():
        if result.expansion_percent is not None:
            check(f"{name} in % from {result.expands}", result.expansion_percent, EXPANSION_PERCENT)
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="a pulled model or a checkpoint folder (%(default)s)")
    parser.add_argument("--rotate", action="store_true", help="take the weights off the grid that they came on")
    parser.add_argument("--work", type=Path, required=True, help="where builds and answers are kept")
    parser.add_argument("--only", nargs="+", choices=QUANTIZED, default=list(QUANTIZED), metavar="BUILD")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of a greedy continuation")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--again", action="store_true", help="ask also what was asked before")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = measure(options)
    for mark in marks({result.build: result for result in results}):
        print(json.dumps(mark))


if __name__ == "__main__":
    main()
