"""`ouzel fidelity`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ouzel.errors import EngineError, RequestError
from ouzel.tools.fidelity.answers import Answers
from ouzel.tools.fidelity.measure import EXPANSION_PERCENT, Build, Exam, Result, expansion_percent, report
from ouzel.tools.fidelity.text import PASSAGE, WINDOW
from ouzel.tools.model_store import find_model

__all__ = ["main"]

_HEAD = f"{'build':<28}{'bits':>7}{'perplexity':>12}{'loss':>9}{'greedy':>8}{'tokens':>8}"


def main(
    folders: Annotated[list[str] | None, typer.Argument(help="Checkpoint folders or pulled models.")] = None,
    reference: Annotated[str | None, typer.Option(help="The bf16 weights that they were made of.")] = None,
    gguf: Annotated[list[Path] | None, typer.Option(help="A build for llama.cpp.")] = None,
    expanded: Annotated[
        list[str] | None, typer.Option(metavar="FOLDER=QUANTIZED", help="An expanded checkpoint and what it expands.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting with which all folders are served."),
    ] = None,
    label: Annotated[str, typer.Option(help="What the weights are, as in rotated.")] = "as shipped",
    text: Annotated[Path, typer.Option(help="What is read; a chapter of Walden by default.")] = PASSAGE,
    window: Annotated[int, typer.Option(min=2, help="Tokens of a window; its first half is context.")] = WINDOW,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of a greedy continuation.")] = 64,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of each engine.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure builds of a language model: bits a weight, perplexity, greedy agreement with the reference."""
    said = dict(_pair(setting, "--set", "NAME=VALUE") for setting in settings or ())
    pairs = [_pair(pair, "--expanded", "FOLDER=QUANTIZED") for pair in expanded or ()]
    if "llm.quantization" in said:
        # It would hold for the reference too, and bits are counted in the files.
        raise RequestError("--set llm.quantization: measure the folder that `ouzel quantize` writes", param="set")
    if not text.is_file():
        raise RequestError(f"--text {text} is no file", param="text")
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise RequestError(f"--json {json_file}: there is no folder {json_file.absolute().parent}", param="json")
    builds = [Build(find_model(name), said) for name in (*(folders or ()), *(one for pair in pairs for one in pair))]
    builds += [Build(file) for file in gguf or ()]
    given = None if reference is None else Build(find_model(reference), said)
    if not builds and given is None:
        raise RequestError("what is to be measured? name folders, --reference or --gguf", param="folders")
    unique = list({build.path: build for build in ([given] if given else []) + builds}.values())
    tokenizer = next((build.path for build in unique if not build.is_gguf), None)
    if tokenizer is None:
        raise RequestError("a GGUF alone doesn't say what the tokens are: give --reference", param="reference")
    threads = threads or len(os.sched_getaffinity(0))
    exam = Exam.of(tokenizer, text=text, window=window, tokens=tokens, threads=threads)
    results = _measure(unique, exam, given, [(find_model(one), find_model(other)) for one, other in pairs], label)
    if json_file is not None:
        json_file.write_text(json.dumps([result.facts() for result in results], indent=1) + "\n")
    _check_expanded(results)


def _measure(
    builds: Sequence[Build], exam: Exam, given: Build | None, pairs: Sequence[tuple[Path, Path]], label: str
) -> list[Result]:
    expands = dict(pairs)
    answers: dict[Path, Answers] = {}
    results = []
    print(_HEAD)
    # What is expanded comes after what it expands.
    for build in sorted(builds, key=lambda build: build.path in expands):
        answers[build.path] = exam.ask(build)
        result = report(
            build,
            answers[build.path],
            tokens=exam.tokens,
            label=label,
            reference=None if given is None else answers[given.path],
        )
        if build.path in expands:
            quantized = expands[build.path]
            result = replace(
                result,
                expands=quantized.name,
                expansion_percent=expansion_percent(answers[build.path], answers[quantized]),
            )
        results.append(result)
        print(_line(result), flush=True)
    return results


def _line(result: Result) -> str:
    line = f"{result.build:<28}{result.bits_per_weight:7.2f}{result.perplexity:12.3f}"
    if result.perplexity_loss_percent is not None:
        line += f"{result.perplexity_loss_percent:+8.2f}%"
        line += f"{f'{result.greedy_equal}/{result.greedy_prompts}':>8}{result.greedy_mean_tokens:8.1f}"
    if result.expands is not None:
        line += f"  {result.expansion_percent:.3f} % from {result.expands}"
    return line


def _check_expanded(results: Sequence[Result]) -> None:
    for result in results:
        if result.expansion_percent is not None and result.expansion_percent > EXPANSION_PERCENT:
            raise EngineError(
                f"{result.build} expands {result.expands} and its perplexity is {result.expansion_percent:.2f} % away; "
                f"expected at most {EXPANSION_PERCENT} %: a kernel or a packing is wrong"
            )


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    first, given, second = text.partition("=")
    if not (first and given and second):
        raise RequestError(f"{option} {text!r}: expected {form}", param=option)
    return first, second
