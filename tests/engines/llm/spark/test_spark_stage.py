"""Spark in the language stage, as it is served: a checkpoint folder, the stand-in tokenizer, a real process."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from running_stage import RunningStage

from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageSampling
from ouzel.tools.make_checkpoint import TINY, make_checkpoint

pytestmark = pytest.mark.llm

KV_BYTES = 64 * 128 * 2 * 2 * 64 * 2 * 2  # 64 blocks for a pair of layers, 2 key-value heads of 64 in bfloat16
FUNCTION = {
    "name": "weather",
    "parameters": {"type": "object", "properties": {"place": {"enum": ["Oslo", "Rome"]}}, "required": ["place"]},
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStage]:
    folder = make_checkpoint(tmp_path_factory.mktemp("models") / "spark", TINY)
    with RunningStage(folder, kv_cache_bytes=KV_BYTES, max_model_len=1024) as stage:
        yield stage


def test_it_thinks_and_calls_tools(spark: RunningStage) -> None:
    assert (spark.facts.tools, spark.facts.reasoning) == (True, True)
    assert spark.facts.kv_tokens and spark.facts.kv_tokens >= 1024


def test_it_writes_beyond_its_window(spark: RunningStage) -> None:
    sampling = LanguageSampling(max_tokens=48, temperature=0, ignore_eos=True)
    answer = spark.ask("A text that is longer than the window of the sliding layers, by far.", sampling=sampling)
    assert answer.finish is FinishReason.LENGTH
    assert answer == spark.ask(
        "A text that is longer than the window of the sliding layers, by far.", sampling=sampling
    )


def test_a_named_tool_is_called(spark: RunningStage) -> None:
    answer = spark.ask(
        messages=({"role": "user", "content": "How is it in Rome?"},),
        tools=({"type": "function", "function": FUNCTION},),
        tool_choice="named",
        tool_name="weather",
        template={"enable_thinking": False},
        sampling=LanguageSampling(max_tokens=200, temperature=0),
    )
    assert answer.finish is FinishReason.TOOL_CALLS
    name, arguments = answer.calls[0]
    # The grammar of this form lets a blank stand on either side of a value.
    assert name == "weather"
    assert json.loads(arguments)["place"].strip() in {"Oslo", "Rome"}
