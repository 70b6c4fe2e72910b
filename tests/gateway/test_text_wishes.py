"""Requests for text, read without a server: what each field becomes, and what is refused in which words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import completion_create_params as openai_completion
from openai.types.chat import completion_create_params as openai_chat

from ouzel.errors import RequestError
from ouzel.gateway.chat_wishes import ChatRequest
from ouzel.gateway.text_wishes import CompletionRequest, TextFields, check_values
from ouzel.gateway.wishes import parse_fields
from ouzel.stages.language import LanguageRequest

USER = {"role": "user", "content": "What is the capital of France?"}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"in":"Paris"}'}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "city", "schema": {"type": "object"}}}


def chat(**fields: Any) -> LanguageRequest:
    (request,) = parse_fields(ChatRequest, {"messages": [USER], **fields}).requests()
    return request


def completion(**fields: Any) -> tuple[LanguageRequest, ...]:
    return parse_fields(CompletionRequest, {"prompt": "Once", **fields}).requests()


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        (openai_chat.CompletionCreateParamsStreaming, ChatRequest),
        (openai_completion.CompletionCreateParamsStreaming, CompletionRequest),
    ],
)
def test_every_field_of_openai_is_served_refused_or_known_to_change_nothing(
    asked: type, kind: type[TextFields]
) -> None:
    fields = asked.__annotations__.keys()
    known = kind.model_fields.keys() | {*kind.refused, *kind.harmless}
    assert "stream" in fields and "temperature" in fields
    assert fields - known == set()


def test_a_plain_request_leaves_everything_to_the_checkpoint() -> None:
    assert chat() == LanguageRequest(messages=(USER,), tool_choice="none")


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"temperature": 0}, "temperature", 0),
        ({"top_p": 0.3}, "top_p", 0.3),
        ({"top_p": 0}, "top_p", 1e-6),
        ({"top_k": 40}, "top_k", 40),
        ({"top_k": -1}, "top_k", 0),
        ({"min_p": 0.1}, "min_p", 0.1),
        ({"presence_penalty": -2}, "presence_penalty", -2),
        ({"frequency_penalty": 2}, "frequency_penalty", 2),
        ({"repetition_penalty": 1.1}, "repetition_penalty", 1.1),
        ({"seed": 7}, "seed", 7),
        ({"seed": -1}, "seed", 2**63 - 1),
        ({"stop": "DE"}, "stop", ("DE",)),
        ({"stop": ["DE", "\n"]}, "stop", ("DE", "\n")),
        ({"stop": None}, "stop", ()),
        ({"ignore_eos": True}, "ignore_eos", True),
        ({"max_tokens": 5}, "max_tokens", 5),
    ],
)
def test_sampling_is_the_same_in_both_kinds(fields: dict[str, Any], name: str, value: object) -> None:
    assert getattr(chat(**fields).sampling, name) == value
    assert getattr(completion(**fields)[0].sampling, name) == value


@pytest.mark.parametrize(
    ("fields", "logprobs"),
    [({}, None), ({"logprobs": False}, None), ({"logprobs": True}, 0), ({"logprobs": True, "top_logprobs": 20}, 20)],
)
def test_logprobs_of_a_chat(fields: dict[str, Any], logprobs: int | None) -> None:
    assert chat(**fields).sampling.logprobs == logprobs


def test_the_newer_name_of_the_token_limit_comes_first() -> None:
    assert chat(max_tokens=5, max_completion_tokens=7).sampling.max_tokens == 7


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("Once", [("Once", None)]),
        (["a", "b"], [("a", None), ("b", None)]),
        ([1, 2], [(None, (1, 2))]),
        ([[1], [2, 3]], [(None, (1,)), (None, (2, 3))]),
        (["a", [1]], [("a", None), (None, (1,))]),
    ],
)
def test_a_prompt_in_all_its_forms(prompt: object, prompts: list[tuple[object, object]]) -> None:
    assert [(one.prompt, one.prompt_ids) for one in completion(prompt=prompt)] == prompts


def test_a_completion_is_short_unless_it_says_otherwise() -> None:
    (request,) = completion(logprobs=5, n=2, best_of=2)
    assert (request.sampling.max_tokens, request.sampling.logprobs, request.n) == (16, 5, 2)


def test_a_conversation_in_the_form_that_templates_read() -> None:
    parts = [{"type": "text", "text": "What is "}, {"type": "text", "text": "this?"}]
    request = chat(
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": parts, "name": "ann", "unknown": 1},
            {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "Hm."},
            {"role": "tool", "tool_call_id": "c1", "content": "rain"},
            {"role": "assistant"},
        ]
    )
    assert request.messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is this?", "name": "ann"},
        {"role": "assistant", "content": "", "tool_calls": [CALL], "reasoning_content": "Hm."},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        {"role": "assistant", "content": ""},
    )


@pytest.mark.parametrize(
    ("given", "choice", "name"),
    [
        (None, "auto", None),
        ("auto", "auto", None),
        ("none", "none", None),
        ("required", "required", None),
        ({"type": "function", "function": {"name": "weather"}}, "named", "weather"),
    ],
)
def test_tools_and_their_choice(given: object, choice: str, name: str | None) -> None:
    request = chat(tools=[WEATHER], tool_choice=given, parallel_tool_calls=False)
    assert (request.tools, request.tool_choice, request.tool_name) == ((WEATHER,), choice, name)
    assert request.parallel_tool_calls is False


@pytest.mark.parametrize("given", [SCHEMA, {"type": "json_object"}])
def test_a_format_goes_to_the_model_as_it_is(given: dict[str, Any]) -> None:
    assert chat(response_format=given).response_format == given
    assert chat(response_format={"type": "text"}).response_format is None


@pytest.mark.parametrize(
    ("fields", "template"),
    [
        ({"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ({"reasoning_effort": "none"}, {"reasoning_effort": "none", "enable_thinking": False}),
        ({"chat_template_kwargs": {"enable_thinking": True}}, {"enable_thinking": True}),
        (
            {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "none"},
            {"reasoning_effort": "none", "enable_thinking": True},
        ),
    ],
)
def test_what_the_template_is_told(fields: dict[str, Any], template: dict[str, Any]) -> None:
    assert chat(**fields).template == template


def message(**fields: Any) -> dict[str, Any]:
    return {"messages": [USER, fields]}


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"messages": []}, "messages", "at least one is needed"),
        ({"messages": "hello"}, "messages", "valid list"),
        ({"messages": ["hello"]}, "messages[0]", "an object with role and content is needed, not str"),
        (message(content="x"), "messages[1].role", "None is no role; valid are system, developer, user"),
        (message(role="robot", content="x"), "messages[1].role", "'robot' is no role"),
        (message(role=["user"], content="x"), "messages[1].role", "is no role"),
        (message(role="user"), "messages[1].content", "the text of a user message is needed"),
        (message(role="user", content=7), "messages[1].content", "a text or a list of parts is needed, not int"),
        (
            message(role="user", content=[{"type": "image_url", "image_url": {"url": "data:"}}]),
            "messages[1].content[0]",
            "parts of type 'image_url' aren't served here; text is",
        ),
        (message(role="user", content=["x"]), "messages[1].content[0]", "not str"),
        (message(role="user", content=[{"type": "text"}]), "messages[1].content[0].text", "not NoneType"),
        (message(role="user", content="x", name=7), "messages[1].name", "not int"),
        (message(role="tool", content="x"), "messages[1].tool_call_id", "not NoneType"),
        (message(role="assistant", function_call={"name": "f"}), "messages[1].function_call", "tool_calls"),
        (message(role="assistant", audio={"id": "a"}), "messages[1].audio", "as content"),
        (message(role="assistant", tool_calls={"a": 1}), "messages[1].tool_calls", "a list is needed"),
        (message(role="assistant", tool_calls=[{"type": "custom"}]), "messages[1].tool_calls[0]", "a function"),
        (message(role="assistant", tool_calls=[{"id": "c"}]), "messages[1].tool_calls[0].function", "arguments"),
        (
            message(role="assistant", tool_calls=[{**CALL, "function": {"name": "f", "arguments": {}}}]),
            "messages[1].tool_calls[0].function.arguments",
            "not dict",
        ),
        ({"modalities": ["video"]}, "modalities", ""),
        ({"top_logprobs": 3}, "top_logprobs", "needs logprobs: true"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "less than or equal to 20"),
        ({"max_completion_tokens": 0}, "max_completion_tokens", "greater than or equal to 1"),
        ({"tools": [{"type": "custom"}]}, "tools[0].type", "'custom' isn't served; function is"),
        ({"tools": [{"type": "function"}]}, "tools[0].function", "with a name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name", "'a b' is no name"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].function.name", "'weather' is there twice"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]},
            "tools[0].function.parameters",
            "a JSON schema",
        ),
        ({"tools": [WEATHER] * 129}, "tools", "at most 128"),
        ({"tool_choice": "required"}, "tool_choice", "no tools are given"),
        ({"tool_choice": "always", "tools": [WEATHER]}, "tool_choice", "'always'; valid are auto, none, required"),
        (
            {"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": [WEATHER]},
            "tool_choice",
            "'g' is none of the tools (weather)",
        ),
        ({"tool_choice": {"type": "allowed_tools"}, "tools": [WEATHER]}, "tool_choice", "is served"),
        ({"response_format": {"type": "yaml"}}, "response_format.type", "'yaml'; valid are text, json_object"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema", "a JSON schema is needed"),
        ({"functions": [{"name": "f"}]}, "functions", "not served here"),
        ({"function_call": "auto"}, "function_call", "not served here"),
        ({"web_search_options": {"x": 1}}, "web_search_options", "not served here"),
        ({"moderation": {"model": "m"}}, "moderation", "not served here"),
        ({"verbosity": "low"}, "verbosity", "'medium'"),
    ],
)
def test_a_chat_is_refused_by_the_name_of_what_is_wrong(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        chat(**fields)
    assert (caught.value.param, str(caught.value).startswith(param)) == (param, True)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"prompt": ""}, "prompt", "not an empty one"),
        ({"prompt": []}, "prompt", "the list is empty"),
        ({"prompt": [[]]}, "prompt", "prompt[0]: a text or a list of token ids is needed, not an empty one"),
        ({"prompt": ["a", 1]}, "prompt", "prompt[1]: a text or a list of token ids is needed, not int"),
        ({"prompt": [True]}, "prompt", "prompt[0]: a text or a list of token ids is needed, not bool"),
        ({"prompt": [3, -4]}, "prompt", "-4 is no token id"),
        ({"prompt": {"text": "a"}}, "prompt", "not dict"),
        ({"prompt": ["a"] * 65, "n": 2}, "n", "65 prompts × 2 are more than 128 choices"),
        ({"best_of": 3}, "best_of", "3 isn't served; n (1) is"),
        ({"echo": True, "logprobs": 1}, "echo", "leave out echo or logprobs"),
        ({"echo": True, "prompt": [1]}, "echo", "send the prompt as text"),
        ({"suffix": "the end"}, "suffix", "not served here"),
        ({"logprobs": True}, "logprobs", "valid integer"),
        ({"logprobs": 21}, "logprobs", "less than or equal to 20"),
    ],
)
def test_a_completion_is_refused_by_the_name_of_what_is_wrong(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        completion(**fields)
    assert caught.value.param == param
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"max_tokens": 0}, "greater than or equal to 1"),
        ({"max_tokens": -5}, "greater than or equal to 1"),
        ({"temperature": -0.1}, "greater than or equal to 0"),
        ({"top_p": 1.1}, "less than or equal to 1"),
        ({"top_k": -2}, "greater than or equal to -1"),
        ({"presence_penalty": 2.5}, "less than or equal to 2"),
        ({"repetition_penalty": 0}, "greater than 0"),
        ({"n": 0}, "greater than or equal to 1"),
        ({"n": 129}, "less than or equal to 128"),
        ({"seed": 2**63}, "less than"),
        ({"stop": ""}, "at least 1 character"),
        ({"stop": ["a", ""]}, "at least 1 character"),
        ({"stop": ["a"] * 17}, "at most 16"),
        ({"logit_bias": {"50256": -100}}, "not served here"),
        ({"min_tokens": 5}, "not served here"),
    ],
)
def test_what_neither_kind_takes(fields: dict[str, Any], words: str) -> None:
    (param,) = fields
    for ask in (chat, completion):
        with pytest.raises(RequestError, match=words) as caught:
            ask(**fields)
        assert caught.value.param == param


def test_a_refused_field_that_asks_for_nothing_is_no_matter() -> None:
    assert chat(logit_bias={}, functions=None) == chat()
    assert completion(suffix="") == completion()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("a\ud800", "half a surrogate pair, U+D800, at letter 1"),
        ([{"content": "\udfff"}], "half a surrogate pair"),
        ({"k\ud800": 1}, "half a surrogate pair"),
        ({"schema": {"maximum": float("inf")}}, "inf is no number"),
    ],
)
def test_what_no_model_can_read_is_found_wherever_it_is(value: object, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_values({"fine": "ü😀\x00", "messages": value})
    assert caught.value.param == "messages"
    assert words in str(caught.value)


def test_values_inside_values_have_a_bound() -> None:
    value: Any = "x"
    for _ in range(64):
        value = [value]
    check_values({"messages": value})
    with pytest.raises(RequestError, match="nested more than 64 deep"):
        check_values({"messages": {"a": value}})


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=8), inside, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from([*ChatRequest.model_fields, *CompletionRequest.model_fields, *ChatRequest.refused])


@given(st.dictionaries(NAMES, ANY, max_size=4), ANY)
def test_whatever_comes_is_a_request_or_refused(fields: dict[str, Any], inside: object) -> None:
    roles = [{"role": role, "content": inside, "tool_calls": inside} for role in ("user", "assistant", "tool")]
    for kind, needed in ((ChatRequest, {"messages": roles}), (CompletionRequest, {"prompt": inside})):
        try:
            check_values(needed | fields)
            assert parse_fields(kind, needed | fields).requests()
        except RequestError as error:
            assert error.param
