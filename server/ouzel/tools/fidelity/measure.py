"""The figures of a build, as an object of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ouzel.tools.fidelity.answers import Answers, Wish, ask
from ouzel.tools.fidelity.bits import folder_size, gguf_size
from ouzel.tools.fidelity.score import agreement, loss_percent, perplexity
from ouzel.tools.fidelity.text import PASSAGE, WINDOW, Ids, read_ids, read_prompts, windows

__all__ = ["EXPANSION_PERCENT", "Build", "Exam", "Result", "expansion_percent", "report"]

#: how much an expanded checkpoint's perplexity may differ from that of the quantized one
EXPANSION_PERCENT = 0.2

VLLM, LLAMA_CPP = "ouzel.tools.fidelity.vllm_engine", "ouzel.tools.fidelity.llama_engine"


@dataclass(frozen=True, slots=True)
class Build:
    """A folder, or a file for llama.cpp."""

    path: Path
    #: deploy settings with which it is served, by dotted name
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_gguf(self) -> bool:
        return self.path.suffix == ".gguf"

    @property
    def name(self) -> str:
        return self.path.stem if self.is_gguf else self.path.name


@dataclass(frozen=True, slots=True)
class Exam:
    """What every build is asked, in the reference's tokens."""

    windows: Sequence[Ids]
    prompts: Sequence[Ids]
    stops: Sequence[int]
    tokens: int
    threads: int

    @classmethod
    def of(
        cls, folder: Path, *, text: Path = PASSAGE, window: int = WINDOW, tokens: int = 64, threads: int = 1
    ) -> Exam:
        """By the tokenizer of this folder.

        :raises CheckpointError: when it has none
        :raises RequestError: when the text is shorter than a window
        """
        passage, *prompts = read_ids(folder, [text.read_text(encoding="utf-8"), *read_prompts()])
        return cls(windows(passage, window), prompts, _stops(folder), tokens, threads)

    def ask(self, build: Build) -> Answers:
        """:raises EngineError: when its engine can't"""
        wish = Wish(
            model=str(build.path),
            windows=self.windows,
            context=len(self.windows[0]) // 2,
            prompts=self.prompts,
            tokens=self.tokens,
            stops=self.stops,
            threads=self.threads,
            settings=build.settings,
        )
        return ask(LLAMA_CPP if build.is_gguf else VLLM, wish)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One build's figures; those beside a reference are None where there is none."""

    build: str
    engine: str
    #: what its weights are, as in "rotated"
    label: str
    bits_per_weight: float
    read_bytes: int
    stored_bytes: int
    perplexity: float
    tokens_scored: int
    perplexity_loss_percent: float | None = None
    greedy_equal: int | None = None
    greedy_prompts: int | None = None
    greedy_tokens: int | None = None
    greedy_mean_tokens: float | None = None
    #: the quantized build that this one expands, and how far apart their perplexities are
    expands: str | None = None
    expansion_percent: float | None = None

    def facts(self) -> dict[str, Any]:
        return {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(self).items()}


def report(build: Build, answers: Answers, *, tokens: int, label: str, reference: Answers | None) -> Result:
    """The figures of what a build answered, beside what its reference did."""
    size = gguf_size(build.path) if build.is_gguf else folder_size(build.path)
    found = perplexity(answers.logprobs)
    beside: dict[str, Any] = {}
    if reference is not None:
        agreed = agreement(answers.greedy, reference.greedy)
        beside = {
            "perplexity_loss_percent": loss_percent(found, perplexity(reference.logprobs)),
            "greedy_equal": agreed.equal,
            "greedy_prompts": agreed.prompts,
            "greedy_tokens": tokens,
            "greedy_mean_tokens": agreed.mean_tokens,
        }
    return Result(
        build=build.name,
        engine="llama.cpp" if build.is_gguf else "vllm",
        label=label,
        bits_per_weight=size.bits_per_weight,
        read_bytes=size.read_bytes,
        stored_bytes=size.stored_bytes,
        perplexity=found,
        tokens_scored=sum(map(len, answers.logprobs)),
        **beside,
    )


def expansion_percent(expanded: Answers, quantized: Answers) -> float:
    """How far apart their perplexities are."""
    return abs(loss_percent(perplexity(expanded.logprobs), perplexity(quantized.logprobs)))


def _stops(folder: Path) -> tuple[int, ...]:
    file = folder / "generation_config.json"
    if not file.is_file():
        file = folder / "config.json"
    said = json.loads(file.read_text(encoding="utf-8")).get("eos_token_id")
    return tuple(said) if isinstance(said, list) else () if said is None else (int(said),)
