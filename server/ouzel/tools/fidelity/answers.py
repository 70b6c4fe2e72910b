"""What is asked of a build, and what it answers: the same for every engine, each in a process of its own.

vLLM's state is global and an engine's memory isn't given back, so a build is asked in a process that ends with it: a
wish as JSON into standard input, the answer as the last line of standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ouzel.config import LlmConfig
from ouzel.errors import EngineError, OuzelError
from ouzel.stages.process import child_environment

__all__ = ["Answers", "Wish", "ask", "serve"]

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is measured; the model is a folder for vLLM, a file for llama.cpp."""

    model: str
    windows: Sequence[Ids]
    #: of each window, tokens that are read and not scored
    context: int
    prompts: Sequence[Ids]
    #: of a greedy continuation
    tokens: int
    #: tokens that end one
    stops: Sequence[int] = ()
    threads: int = 1
    #: deploy settings by dotted name, for vLLM
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def longest(self) -> int:
        """Positions that the engine needs."""
        return max(
            [len(window) + 1 for window in self.windows] + [len(prompt) + self.tokens for prompt in self.prompts]
        )


@dataclass(frozen=True, slots=True)
class Answers:
    """Logprobs of the scored tokens by window, and the continuation of each prompt."""

    logprobs: list[list[float]]
    greedy: list[list[int]]


def ask(engine: str, wish: Wish) -> Answers:
    """Start the module `engine` for this wish.

    :raises EngineError: when it ends without an answer, with the last that it said
    """
    done = subprocess.run(
        [sys.executable, "-m", engine],
        input=json.dumps(asdict(wish)),
        env=child_environment(os.environ, wish.threads, LlmConfig().spin_ms),
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode or not last.startswith("{"):
        said = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        raise EngineError(f"{Path(wish.model).name} can't be measured: {said}", param="folder")
    return Answers(**json.loads(last))


def serve(answer: Callable[[Wish], Answers]) -> None:
    """Be such a module."""
    wish: dict[str, Any] = json.load(sys.stdin)
    try:
        answers = answer(Wish(**wish))
    except OuzelError as error:
        sys.exit(str(error))
    sys.stdout.write(f"\n{json.dumps(asdict(answers))}\n")
    sys.stdout.flush()
    # vLLM isn't taken apart, which takes seconds; the process ends here.
    os._exit(0)
