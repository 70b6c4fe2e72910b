"""Grammars and tool calls, on models of noise that would never keep to them by themselves."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from running_stage import Answer, RunningStage, refusal

from ouzel.errors import RequestError
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageSampling

pytestmark = pytest.mark.llm

USER = ({"role": "user", "content": "Hi"},)
PERSON = {
    "type": "object",
    "properties": {"known": {"type": "boolean"}, "of": {"enum": ["here", "there"]}},
    "required": ["known", "of"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"today": {"type": "boolean"}, "unit": {"enum": ["C", "F"]}},
            "required": ["today", "unit"],
            "additionalProperties": False,
        },
    },
}
TIME = {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}}
AS_PERSON = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}


def wild(tokens: int, seed: int = 1) -> LanguageSampling:
    return LanguageSampling(temperature=1, seed=seed, max_tokens=tokens)


def longest_blanks(text: str) -> int:
    outside = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    return max((len(run) for run in re.findall(r"\s+", outside)), default=0)


@pytest.mark.parametrize("seed", range(5))
def test_a_schema_is_kept_and_blanks_are_few(plain: RunningStage, seed: int) -> None:
    answer = plain.ask(messages=USER, response_format=AS_PERSON, sampling=wild(200, seed))
    assert answer.finish is FinishReason.STOP
    said = json.loads(answer.content)
    assert said.keys() == {"known", "of"} and said["of"] in ("here", "there")
    assert longest_blanks(answer.content) <= 8


def test_a_completion_may_have_a_grammar_too(plain: RunningStage) -> None:
    answer = plain.ask("x", response_format=AS_PERSON, sampling=wild(200))
    assert json.loads(answer.content).keys() == {"known", "of"}


@pytest.mark.parametrize("seed", range(3))
def test_any_object_is_an_object_with_few_blanks(plain: RunningStage, seed: int) -> None:
    answer = plain.ask(messages=USER, response_format={"type": "json_object"}, sampling=wild(120, seed))
    assert answer.content.lstrip().startswith("{") and longest_blanks(answer.content) <= 8
    if answer.finish is FinishReason.STOP:
        assert isinstance(json.loads(answer.content), dict)


LONG = {"anyOf": [{"type": "string", "pattern": "^.{1,600}$"}, {"patternProperties": {"[a-z]{,9}(x{401})": {}}}]}


@pytest.mark.parametrize("model", ["plain", "hermes", "glm"])
def test_a_pattern_that_takes_long_to_read_is_refused_before_it_is_read(
    model: str, request: pytest.FixtureRequest
) -> None:
    stage: RunningStage = request.getfixturevalue(model)
    schema = {"type": "json_schema", "json_schema": {"name": "long", "schema": LONG}}
    refused = refusal(stage, messages=USER, response_format=schema)
    assert (type(refused), refused.param) == (RequestError, "response_format")
    assert "repeat something 1001 times; at most 1000" in str(refused)
    if stage.facts.tools:
        tool = {
            "type": "function",
            "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": LONG}}},
        }
        refused = refusal(stage, messages=USER, tools=(tool,), tool_choice="required")
        assert (type(refused), refused.param) == (RequestError, "tools")


def called(answer: Answer) -> dict[str, Any]:
    ((name, arguments),) = answer.calls.values()
    return {name: json.loads(arguments)}


@pytest.mark.parametrize("model", ["hermes", "glm"])
@pytest.mark.parametrize("seed", range(3))
def test_a_named_tool_is_called_with_arguments_of_its_schema(
    model: str, seed: int, request: pytest.FixtureRequest
) -> None:
    stage: RunningStage = request.getfixturevalue(model)
    answer = stage.ask(
        messages=USER,
        tools=(TIME, WEATHER),
        tool_choice="named",
        tool_name="weather",
        template={"enable_thinking": False},
        sampling=wild(250, seed),
    )
    assert (answer.finish, answer.content.strip()) == (FinishReason.TOOL_CALLS, "")
    arguments = called(answer)["weather"]
    assert type(arguments["today"]) is bool and arguments["unit"].strip() in ("C", "F")


@pytest.mark.parametrize("model", ["hermes", "glm"])
def test_a_required_call_that_meets_its_limit_ends_with_length_at_every_limit(
    model: str, request: pytest.FixtureRequest
) -> None:
    stage: RunningStage = request.getfixturevalue(model)
    finishes = {}
    for limit in (1, 2, 8, 16, 24, 48, 128):
        answer = stage.ask(
            messages=USER,
            tools=(WEATHER,),
            tool_choice="required",
            parallel_tool_calls=False,
            template={"enable_thinking": False},
            sampling=wild(limit),
        )
        finishes[limit] = answer.finish
    assert finishes[8] is FinishReason.LENGTH
    assert set(finishes.values()) <= {FinishReason.LENGTH, FinishReason.TOOL_CALLS}


def test_a_thought_is_kept_apart(glm: RunningStage) -> None:
    thinking = glm.ask(messages=USER, sampling=LanguageSampling(temperature=0, max_tokens=16, ignore_eos=True))
    assert thinking.content == "" and thinking.reasoning
    answering = glm.ask(messages=USER, template={"enable_thinking": False}, sampling=wild(16))
    assert answering.reasoning == "" and answering.content


@pytest.mark.parametrize("seed", range(6))
def test_text_that_is_held_back_for_a_stop_string_is_cut_at_the_same_place(glm: RunningStage, seed: int) -> None:
    """A stop string that never comes changes nothing, though the end of a thought is held back with the rest."""
    sampling = wild(160, seed)
    free = glm.ask(messages=USER, sampling=sampling)
    held = glm.ask(messages=USER, sampling=replace(sampling, stop=("a stop string of some length",)))
    assert (held.reasoning, held.content, held.finish) == (free.reasoning, free.content, free.finish)


def test_thoughts_end_in_the_tests_above(glm: RunningStage) -> None:
    answers = [glm.ask(messages=USER, sampling=wild(160, seed)) for seed in range(6)]
    assert sum(bool(answer.reasoning and answer.content) for answer in answers) >= 2


def test_who_thinks_is_held_to_a_schema_once_the_thought_is_over(glm: RunningStage) -> None:
    answer = glm.ask(messages=USER, template={"enable_thinking": False}, response_format=AS_PERSON, sampling=wild(200))
    assert json.loads(answer.content).keys() == {"known", "of"}


def test_without_tools_nothing_is_a_call(glm: RunningStage) -> None:
    for seed in range(6):
        assert glm.ask(messages=USER, sampling=wild(120, seed)).calls == {}


def test_a_tool_that_is_not_there_can_not_be_named(hermes: RunningStage) -> None:
    from running_stage import refusal

    refused = refusal(hermes, messages=USER, tools=(TIME,), tool_choice="named", tool_name="weather")
    assert refused.param == "tool_choice" and "does not match any of the specified `tools`" in str(refused)


def test_what_a_model_can_do_is_told(plain: RunningStage, hermes: RunningStage, glm: RunningStage) -> None:
    found = [(stage.facts.tools, stage.facts.reasoning) for stage in (plain, hermes, glm)]
    assert found == [(False, False), (True, False), (True, True)]
