"""Completions and chat completions over a real socket, as bytes; what the cases of LLM REST say of the wire."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fake_language import MODEL, PROMPT_TOKENS, TEXT, WORDS, FakeLanguage, said, script, token
from running import Running, running, until, with_gateway

from ouzel.errors import BusyError, EngineError, RequestError
from ouzel.gateway import merge
from ouzel.orchestrator.language import LanguageState
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageFacts, LanguageRequest, TextDelta, ToolCallDelta

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = "/v1/chat/completions"
PLAIN = "/v1/completions"
ASKED: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "What is the capital of France?"}]},
    PLAIN: {"prompt": "The capital of France"},
}
BOTH = pytest.mark.parametrize("path", [CHAT, PLAIN])
STREAMED = pytest.mark.parametrize("stream", [False, True])
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


async def ask(server: Running, path: str = CHAT, **fields: object) -> httpx.Response:
    return await server.http.post(path, json={**ASKED[path], **fields})


def data(reply: httpx.Response) -> list[str]:
    """The events of a stream, comments left out."""
    parts = reply.text.split("\n\n")
    assert parts.pop() == ""
    assert all(part.startswith(("data: ", ": ")) and "\n" not in part for part in parts)
    return [part.removeprefix("data: ") for part in parts if not part.startswith(": ")]


def chunks(reply: httpx.Response) -> list[dict[str, Any]]:
    """The chunks of a stream that says that it is whole."""
    *events, done = data(reply)
    assert done == "[DONE]"
    return [json.loads(event) for event in events]


def choices(found: Iterable[dict[str, Any]], index: int = 0) -> list[dict[str, Any]]:
    return [choice for chunk in found for choice in chunk["choices"] if choice["index"] == index]


def text_of(choice: dict[str, Any]) -> str:
    """What a choice of a chunk, or a whole one, says."""
    if "text" in choice:
        return choice["text"]
    return choice.get("delta", choice.get("message")).get("content") or ""


def fault(reply: httpx.Response) -> dict[str, Any]:
    """The error object, whose shape is the same for all."""
    body = reply.json()
    assert body.keys() == {"error"} and body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["code"] == reply.status_code
    return body["error"]


@BOTH
async def test_an_answer_at_once(writer: Running, path: str) -> None:
    reply = await ask(writer, path)
    body = reply.json()
    (choice,) = body["choices"]
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    assert (text_of(choice), choice["finish_reason"], choice["logprobs"]) == (TEXT, "stop", None)
    assert body["object"] == ("chat.completion" if path == CHAT else "text_completion")
    assert (body["model"], body["created"] > 1_700_000_000) == (MODEL, True)
    assert body["usage"] == {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": len(WORDS),
        "total_tokens": PROMPT_TOKENS + len(WORDS),
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


@BOTH
async def test_an_answer_while_it_is_written(writer: Running, path: str) -> None:
    reply = await ask(writer, path, stream=True)
    found = chunks(reply)
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert (reply.headers["cache-control"], reply.headers["x-accel-buffering"]) == ("no-cache", "no")
    assert "content-length" not in reply.headers
    assert [text_of(choice) for choice in choices(found) if text_of(choice)] == list(WORDS)
    assert [choice["finish_reason"] for choice in choices(found)] == [None] * (len(found) - 1) + ["stop"]
    assert len({(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in found}) == 1
    assert all("usage" not in chunk for chunk in found)


async def test_the_first_chunk_of_each_choice_has_its_role_and_no_other(writer: Running) -> None:
    found = chunks(await ask(writer, stream=True, n=2))
    for index in (0, 1):
        first, *others = [choice["delta"] for choice in choices(found, index)]
        assert first == {"role": "assistant", "content": ""}
        assert all("role" not in delta for delta in others)
        assert others[-1] == {}


# case 77
@BOTH
async def test_usage_comes_last_in_a_stream_that_asks_for_it(writer: Running, path: str) -> None:
    *others, last = chunks(await ask(writer, path, stream=True, stream_options={"include_usage": True}))
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], PROMPT_TOKENS + len(WORDS))
    assert [chunk["usage"] for chunk in others] == [None] * len(others)


# case 79
@BOTH
async def test_a_broken_stream_ends_with_an_error_and_does_not_say_that_it_is_done(writer: Running, path: str) -> None:
    writer.language.fault = (2, EngineError("the language stage died"))
    reply = await ask(writer, path, stream=True)
    *events, error = data(reply)
    assert reply.status_code == 200
    assert [text_of(choice) for choice in choices(map(json.loads, events)) if text_of(choice)] == list(WORDS[:2])
    assert json.loads(error) == {
        "error": {"message": "the language stage died", "type": "server_error", "param": None, "code": 500}
    }


@BOTH
@STREAMED
async def test_what_ends_without_saying_how_is_no_answer(writer: Running, path: str, stream: bool) -> None:
    writer.language.stops_after = 3
    reply = await ask(writer, path, stream=stream)
    assert "stopped by the server" in reply.text
    assert "[DONE]" not in reply.text
    assert reply.status_code == (200 if stream else 500)


# case 81: that the text is cut exactly is the stage's part; here nothing is added to it or kept from it
@BOTH
@STREAMED
async def test_stop_strings_reach_the_model_and_its_text_the_client(writer: Running, path: str, stream: bool) -> None:
    writer.language.script = script(said(""), said("ABC"), said("", finish=FinishReason.STOP))
    reply = await ask(writer, path, stream=stream, stop=["DE"], temperature=0)
    assert writer.language.asked[0].sampling.stop == ("DE",)
    assert "".join(map(text_of, choices(chunks(reply) if stream else [reply.json()]))) == "ABC"


# case 83
async def test_reasoning_is_kept_apart_in_both_modes(writer: Running) -> None:
    writer.language.script = script(
        said(reasoning="The user"),
        said(reasoning=" asks."),
        said("Par"),
        said("is.", finish=FinishReason.STOP),
    )
    found = chunks(await ask(writer, stream=True))
    deltas = [choice["delta"] for choice in choices(found)]
    message = (await ask(writer)).json()["choices"][0]["message"]
    assert message["reasoning_content"] == "".join(delta.get("reasoning_content", "") for delta in deltas)
    assert message["content"] == "".join(delta.get("content", "") for delta in deltas) == "Paris."
    assert message["reasoning_content"] == "The user asks."


# case 85
@STREAMED
async def test_the_templates_own_complaint_is_a_400_with_its_words(writer: Running, stream: bool) -> None:
    complaint = "messages: Conversation roles must alternate user/assistant/user/assistant/..."
    writer.language.refusal = RequestError(complaint, param="messages")
    user = {"role": "user", "content": "a"}
    reply = await ask(writer, messages=[user, user], stream=stream)
    assert (reply.status_code, fault(reply)["message"], fault(reply)["param"]) == (400, complaint, "messages")


CALLS = (
    said(tool_calls=(ToolCallDelta(index=0, id="call_a", name="weather"),)),
    said(tool_calls=(ToolCallDelta(index=0, arguments='{"in":'), ToolCallDelta(index=1, id="call_b", name="time"))),
    said(tool_calls=(ToolCallDelta(index=0, arguments='"Paris"}'), ToolCallDelta(index=1, arguments="{}"))),
)


async def test_tool_calls_come_whole_and_in_pieces(writer: Running) -> None:
    writer.language.script = script(*CALLS, said(finish=FinishReason.TOOL_CALLS))
    (choice,) = (await ask(writer, tools=[WEATHER])).json()["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert choice["message"]["tool_calls"] == [
        {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": '{"in":"Paris"}'}},
        {"id": "call_b", "type": "function", "function": {"name": "time", "arguments": "{}"}},
    ]
    found = choices(chunks(await ask(writer, tools=[WEATHER], stream=True)))
    pieces = [piece for choice in found for piece in choice["delta"].get("tool_calls", [])]
    assert pieces[0] == {
        "index": 0,
        "id": "call_a",
        "type": "function",
        "function": {"name": "weather", "arguments": ""},
    }
    assert pieces[1] == {"index": 0, "function": {"arguments": '{"in":'}}
    assert found[-1]["finish_reason"] == "tool_calls"


# case 87
@STREAMED
@pytest.mark.parametrize("made", [1, 2, 3])
async def test_a_tool_call_that_is_cut_off_ends_with_length(writer: Running, stream: bool, made: int) -> None:
    writer.language.script = script(*CALLS[: made - 1], replace(CALLS[made - 1], finish=FinishReason.LENGTH))
    reply = await ask(writer, tools=[WEATHER], tool_choice="required", max_tokens=made, stream=stream)
    found = choices(chunks(reply)) if stream else reply.json()["choices"]
    assert (reply.status_code, found[-1]["finish_reason"]) == (200, "length")
    assert writer.language.asked[0].tool_choice == "required"


@BOTH
@STREAMED
async def test_reaching_the_token_limit_is_said(writer: Running, path: str, stream: bool) -> None:
    reply = await ask(writer, path, stream=stream, max_tokens=3)
    found = choices(chunks(reply) if stream else [reply.json()])
    assert (found[-1]["finish_reason"], "".join(map(text_of, found))) == ("length", "".join(WORDS[:3]))


# case 93
@STREAMED
async def test_logprobs_of_a_chat_are_finite(writer: Running, stream: bool) -> None:
    tokens = (token("Paris", -0.25, [("Paris", -0.25), ("Rome", -math.inf)]),)
    writer.language.script = script(said("Paris", logprobs=tokens, finish=FinishReason.STOP))
    reply = await ask(writer, stream=stream, logprobs=True, top_logprobs=2, top_p=0.3)
    found = choices(chunks(reply)) if stream else reply.json()["choices"]
    (said_of,) = [choice["logprobs"] for choice in found if choice["logprobs"]]
    paris, rome = list(b"Paris"), list(b"Rome")
    alternatives = [
        {"token": "Paris", "bytes": paris, "logprob": -0.25},
        {"token": "Rome", "bytes": rome, "logprob": -9999.0},
    ]
    assert said_of["content"] == [{"token": "Paris", "bytes": paris, "logprob": -0.25, "top_logprobs": alternatives}]
    assert "Infinity" not in reply.text


@STREAMED
async def test_logprobs_of_a_completion_say_where_each_token_begins(writer: Running, stream: bool) -> None:
    # Two tokens make one letter here; the offsets count letters.
    halves = [replace(token("\ufffd", -1.0), bytes=(half,)) for half in "é".encode()]
    tokens = [token("Caf"), *halves, token(" au", -math.inf, [("x", -2.0)])]
    deltas = [said("Caf", logprobs=tokens[:1]), said("é", logprobs=tokens[1:3])]
    writer.language.script = script(*deltas, said(" au", logprobs=tokens[3:], finish=FinishReason.STOP))
    reply = await ask(writer, PLAIN, stream=stream, logprobs=1)
    parts = [choice["logprobs"] for choice in choices(chunks(reply) if stream else [reply.json()])]
    together = {name: [one for part in parts for one in part[name]] for name in parts[0]}
    assert together == {
        "tokens": ["Caf", "\ufffd", "\ufffd", " au"],
        "token_logprobs": [-0.5, -1.0, -1.0, -9999.0],
        "text_offset": [0, 3, 3, 4],
        "top_logprobs": [{"Caf": -0.5}, {"\ufffd": -1.0}, {"\ufffd": -1.0}, {"x": -2.0, " au": -9999.0}],
    }


@BOTH
async def test_choices_are_numbered(writer: Running, path: str) -> None:
    body = (await ask(writer, path, n=3)).json()
    assert [(choice["index"], text_of(choice)) for choice in body["choices"]] == [(at, TEXT) for at in range(3)]
    assert writer.language.asked[0].n == 3


@STREAMED
async def test_several_prompts_are_numbered_through_and_their_usage_is_summed(writer: Running, stream: bool) -> None:
    fields = {"prompt": ["a", [1, 2]], "n": 2, "stream": stream, "stream_options": {"include_usage": True}}
    reply = await ask(writer, PLAIN, **fields)
    found = chunks(reply) if stream else [reply.json()]
    assert ["".join(map(text_of, choices(found, index))) for index in range(4)] == [TEXT] * 4
    assert [(one.prompt, one.prompt_ids) for one in writer.language.asked] == [("a", None), (None, (1, 2))]
    assert found[-1]["usage"]["prompt_tokens"] == 2 * PROMPT_TOKENS
    assert found[-1]["usage"]["completion_tokens"] == 4 * len(WORDS)


@STREAMED
async def test_a_long_list_of_prompts_takes_half_of_the_places_and_is_served_whole(
    writer: Running, stream: bool
) -> None:
    writer.language.gate.clear()
    prompts = [f"{number}" for number in range(10)]
    request = asyncio.ensure_future(ask(writer, PLAIN, prompt=prompts, stream=stream))
    await until(lambda: writer.language.running == 3)
    assert len(writer.language.asked) == 3
    writer.language.gate.set()
    reply = await request
    found = chunks(reply) if stream else [reply.json()]
    assert ["".join(map(text_of, choices(found, index))) for index in range(10)] == [TEXT] * 10
    assert [one.prompt for one in writer.language.asked] == prompts


@STREAMED
async def test_one_prompt_that_fails_ends_the_others(writer: Running, stream: bool) -> None:
    def first_waits_and_second_fails(request: LanguageRequest) -> list[TextDelta]:
        if request.prompt == "b":
            raise EngineError("this one is too much")
        return [said("x", finish=FinishReason.STOP)]

    writer.language.gate.clear()
    writer.language.script = first_waits_and_second_fails
    reply = await ask(writer, PLAIN, prompt=["a", "b"], stream=stream)
    assert (reply.status_code, fault(reply)["message"]) == (500, "this one is too much")
    await until(lambda: writer.language.running == 0)


@STREAMED
async def test_echo_begins_each_choice_with_its_prompt(writer: Running, stream: bool) -> None:
    reply = await ask(writer, PLAIN, prompt=["a: ", "b: "], n=2, echo=True, stream=stream)
    found = chunks(reply) if stream else [reply.json()]
    told = ["".join(map(text_of, choices(found, index))) for index in range(4)]
    assert told == [f"a: {TEXT}", f"a: {TEXT}", f"b: {TEXT}", f"b: {TEXT}"]


@BOTH
@STREAMED
@pytest.mark.parametrize("free", [0, 2])
async def test_a_client_that_leaves_ends_the_work(writer: Running, path: str, stream: bool, free: int) -> None:
    writer.language.gate.clear()
    writer.language.free_deltas = free
    request = asyncio.ensure_future(ask(writer, path, stream=stream))
    await until(lambda: writer.language.running == 1 and writer.language.deltas_made == free)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    await until(lambda: writer.language.running == 0)
    assert writer.language.deltas_made == free
    page = (await writer.http.get("/metrics")).text
    assert 'ouzel_requests_running{kind="llm"} 0' in page and 'ouzel_requests_waiting{kind="llm"} 0' in page


@BOTH
@STREAMED
async def test_a_full_queue_is_a_429_that_says_when_to_come_back(writer: Running, path: str, stream: bool) -> None:
    writer.language.refusal = BusyError("16 requests wait already")
    reply = await ask(writer, path, stream=stream)
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
    assert fault(reply)["type"] == "rate_limit_error"


@BOTH
@STREAMED
@pytest.mark.parametrize("state", [LanguageState.LOADING, LanguageState.FAILED, LanguageState.RESTARTING])
async def test_what_does_not_serve_is_a_503_with_the_reason_and_speech_goes_on(
    writer: Running, path: str, stream: bool, state: LanguageState
) -> None:
    reason = "no folder at models/none"
    writer.language.now = replace(writer.language.now, state=state, reason=reason, facts=None)
    reply = await ask(writer, path, stream=stream)
    assert (reply.status_code, fault(reply)["message"]) == (503, reason)
    health = (await writer.http.get("/health")).json()
    assert (health["language"]["state"], health["language"]["reason"]) == (state, reason)
    assert (await writer.http.get("/ready")).status_code == 200
    assert (await writer.http.post("/v1/audio/speech", json={"input": "Hello."})).status_code == 200


async def test_a_stream_that_waits_for_its_turn_pings(writer: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "_PING_S", 0.01)
    writer.language.gate.clear()
    async with writer.http.stream("POST", CHAT, json={**ASKED[CHAT], "stream": True}) as reply:
        lines = reply.aiter_lines()
        assert [await anext(lines) for _ in range(4)] == [": ping", "", ": ping", ""]
        assert "server-timing" not in reply.headers
        writer.language.gate.set()
        rest = [line async for line in lines if line and not line.startswith(":")]
    assert rest[-1] == "data: [DONE]"


async def test_a_fault_after_a_ping_is_an_event(writer: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "_PING_S", 0.01)
    writer.language.gate.clear()
    writer.language.fault = (1, EngineError("the language stage died"))
    async with writer.http.stream("POST", CHAT, json={**ASKED[CHAT], "stream": True}) as reply:
        lines = reply.aiter_lines()
        assert await anext(lines) == ": ping"
        writer.language.gate.set()
        rest = [line async for line in lines if line.startswith("data: ")]
    assert json.loads(rest[-1].removeprefix("data: "))["error"]["message"] == "the language stage died"


@BOTH
@STREAMED
async def test_a_request_keeps_its_number_and_says_what_it_took(writer: Running, path: str, stream: bool) -> None:
    body = {**ASKED[path], "stream": stream}
    reply = await writer.http.post(path, json=body, headers={"X-Request-Id": "mine-1"})
    assert reply.headers["x-request-id"] == writer.language.ids[0] == "mine-1"
    assert "mine-1" in reply.text
    assert reply.headers["server-timing"].startswith("first_token;dur=")


@BOTH
async def test_any_model_is_served_by_the_one_there_is(writer: Running, path: str) -> None:
    reply = await ask(writer, path, model="gpt-9")
    assert (reply.status_code, reply.json()["model"]) == (200, MODEL)
    assert reply.headers["warning"] == f'199 ouzel "model gpt-9 is not loaded; {MODEL} serves"'
    for name in (MODEL, None):
        assert "warning" not in (await ask(writer, path, model=name)).headers


async def test_a_model_elsewhere_has_the_name_it_is_asked_by_until_it_is_known(writer: Running) -> None:
    writer.language.now = replace(writer.language.now, state=LanguageState.REMOTE, model="", facts=None)
    reply = await ask(writer, model="theirs")
    assert (reply.json()["model"], "warning" in reply.headers) == ("theirs", False)
    assert [model["id"] for model in (await writer.http.get("/v1/models")).json()["data"]] == ["ouzel-fake"]


async def test_the_language_model_is_listed(writer: Running) -> None:
    listed = (await writer.http.get("/v1/models")).json()["data"]
    assert [(model["id"], model.get("max_model_len")) for model in listed] == [(MODEL, 2048), ("ouzel-fake", None)]
    assert (await writer.http.get(f"/v1/models/{MODEL}")).json() == listed[0]
    reply = await writer.http.get("/v1/models/gpt-9")
    assert (reply.status_code, "'ouzel-fake-lm' and 'ouzel-fake' are" in fault(reply)["message"]) == (404, True)


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        (b'{"prompt":"\xff","messages":[]}', "body", "not UTF-8: byte 0xFF"),
        (b"", None, "not JSON"),
        (b'{"prompt":"a","messages":[],"temperature":NaN}', None, "NaN is no JSON number"),
        (b'{"prompt":"a","messages":[],"temperature":1e999}', "temperature", ""),
        (b'{"prompt":"\\ud800","messages":[{"role":"user","content":"\\ud800"}]}', None, "half a surrogate pair"),
        (b'{"prompt":"a","messages":[{"role":"user","content":"a"}],"stop":"a\\udc00"}', "stop", "surrogate"),
        (b"{}", None, "Field required"),
        (b'{"messages":' + b"[" * 100 + b"]" * 100 + b"}", "messages", "nested more than 64 deep"),
        (b'{"messages":' + b"[" * 100_000, None, "not JSON"),
    ],
)
@BOTH
async def test_a_hostile_body_is_a_400(writer: Running, path: str, body: bytes, param: str | None, words: str) -> None:
    reply = await writer.http.post(path, content=body)
    assert (reply.status_code, fault(reply)["type"]) == (400, "invalid_request_error")
    assert words in fault(reply)["message"]
    assert param in (None, fault(reply)["param"])
    assert writer.language.asked == []


ODD = ("NUL \x00 inside", "\u202eright to left\u202c", "a" + "\u0301" * 100_000, "\ufeffmark", "\u2028line\x85end")


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
@STREAMED
async def test_odd_text_goes_in_and_out_as_it_is(writer: Running, text: str, stream: bool) -> None:
    writer.language.script = script(said(text, finish=FinishReason.STOP))
    reply = await ask(writer, messages=[{"role": "user", "content": text}], stream=stream)
    assert writer.language.asked[0].messages == ({"role": "user", "content": text},)
    assert "".join(map(text_of, choices(chunks(reply) if stream else [reply.json()]))) == text


@BOTH
async def test_a_form_and_a_byte_order_mark_are_forgiven(writer: Running, path: str) -> None:
    content = b"\xef\xbb\xbf" + json.dumps(ASKED[path]).encode()
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert (await writer.http.post(path, content=content, headers=headers)).status_code == 200


@BOTH
async def test_unknown_fields_are_ignored_unless_strict(writer: Running, path: str) -> None:
    assert (await ask(writer, path, volume=3, user="me")).status_code == 200
    reply = await writer.http.post(f"{path}?strict=1", json={**ASKED[path], "user": "me"})
    assert reply.status_code == 200
    reply = await writer.http.post(f"{path}?strict=1", json={**ASKED[path], "volume": 3})
    assert (reply.status_code, fault(reply)["param"]) == (400, "volume")


async def test_the_front_says_where_it_writes(writer: Running) -> None:
    said_of = (await writer.http.get("/")).text
    assert said_of.endswith(" speaks at POST /v1/audio/speech and writes at POST /v1/chat/completions\n")


@BOTH
async def test_without_a_language_model_there_is_none(server: Running, path: str) -> None:
    reply = await ask(server, path)
    assert (reply.status_code, fault(reply)["param"]) == (404, "model")
    assert fault(reply)["message"].startswith("no language model is served here")
    assert "language" not in (await server.http.get("/health")).json()
    assert "ouzel_llm" not in (await server.http.get("/metrics")).text


@BOTH
async def test_the_key_guards_text_too(path: str) -> None:
    async with running(key="k", language=FakeLanguage()) as server:
        assert (await ask(server, path)).status_code == 401
        reply = await server.http.post(path, json=ASKED[path], headers={"Authorization": "Bearer k"})
        assert reply.status_code == 200


async def test_a_body_has_a_largest_size() -> None:
    async with running(with_gateway(max_body_bytes=1024), language=FakeLanguage()) as server:
        assert (await ask(server, messages=[{"role": "user", "content": "a" * 2000}])).status_code == 413


async def test_a_client_that_takes_nothing_is_dropped() -> None:
    language = FakeLanguage()
    language.script = lambda request: (said("x" * 100_000) for _ in range(1000))
    async with running(with_gateway(send_deadline_s=0.1), language=language) as server:
        body = {**ASKED[CHAT], "stream": True}
        async with server.http.stream("POST", CHAT, json=body) as slow:
            await anext(slow.aiter_raw(1))
            await until(lambda: language.running == 0)
            assert language.deltas_made < 1000


async def test_the_servers_end_ends_an_answer() -> None:
    language = FakeLanguage()
    language.gate.clear()
    async with running(language=language) as server:
        request = asyncio.ensure_future(ask(server))
        await until(lambda: language.running == 1)
        server.server.stop()
        reply = await request
        assert (reply.status_code, fault(reply)["message"]) == (503, "the server is stopping")
        assert language.running == 0


async def test_what_is_counted() -> None:
    language = FakeLanguage()
    facts = LanguageFacts(model=MODEL, context=2048, kv_tokens=4096)
    counters = {"preemptions": 0, "kv_tokens": 4096, "kv_reserved_tokens": 1024, "running": 2, "waiting": 1}
    language.now = replace(language.now, facts=facts, counters=counters, restarts=1)
    async with running(language=language) as server:
        await ask(server)
        await ask(server, stream=True, n=2)
        language.refusal = BusyError("16 requests wait already")
        await ask(server)
        lines = (await server.http.get("/metrics")).text.splitlines()
        health = (await server.http.get("/health")).json()["language"]
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    expected = {
        'ouzel_requests_total{kind="llm",outcome="ok"}': 2,
        'ouzel_requests_total{kind="llm",outcome="rejected"}': 1,
        "ouzel_llm_prompt_tokens_total": 2 * PROMPT_TOKENS,
        "ouzel_llm_completion_tokens_total": 3 * len(WORDS),
        "ouzel_llm_cached_tokens_total": 4,
        "ouzel_llm_time_to_first_token_seconds_count": 2,
        "ouzel_llm_inter_token_seconds_count": 3 * (len(WORDS) - 1),
        'ouzel_llm_state{state="ready"}': 1,
        'ouzel_llm_sequences{state="running"}': 2,
        'ouzel_llm_sequences{state="waiting"}': 1,
        "ouzel_llm_kv_tokens": 4096,
        "ouzel_llm_kv_reserved_tokens": 1024,
        "ouzel_llm_preemptions_total": 0,
        "ouzel_llm_restarts_total": 1,
        f'ouzel_model_loaded{{model="{MODEL}"}}': 1,
        'ouzel_requests_waiting{kind="llm"}': 0,
        'ouzel_requests_running{kind="llm"}': 0,
    }
    assert {name: float(values[name]) for name in expected} == expected
    assert (health["counters"], health["facts"]["context"]) == (counters, 2048)


async def test_the_schema_tells_the_requests(writer: Running) -> None:
    paths = (await writer.http.get("/openapi.json")).json()["paths"]
    for path, own in ((CHAT, {"messages", "tools", "top_logprobs"}), (PLAIN, {"prompt", "echo"})):
        body = paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert own | {"model", "stream", "temperature", "stop"} <= body["properties"].keys()
        assert "$ref" not in str(body)
