"""Four-bit weights in the language stage, as they are served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_stage import RunningStage
from tiny_llama import write_llama

from ouzel.stages.language import LanguageSampling

pytestmark = pytest.mark.llm

SETTINGS = {"quantization": "ouzel_w4a16", "quantization_group": 32}
GREEDY = LanguageSampling(max_tokens=24, temperature=0, ignore_eos=True, logprobs=5)
PROMPTS = ("Once", "A prompt of more rows than are multiplied one after the other.")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="module")
def at_load(source: Path) -> Iterator[RunningStage]:
    with RunningStage(source, **SETTINGS) as stage:
        yield stage


def test_it_writes(at_load: RunningStage) -> None:
    for words in PROMPTS:
        answer = at_load.ask(words, sampling=GREEDY)
        assert len(answer.logprobs) == 24
        assert answer == at_load.ask(words, sampling=GREEDY)
