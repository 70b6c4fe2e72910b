"""A language model behind an endpoint: a real one on a real socket, whose answers each test writes down."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from endpoint import Endpoint, listening
from fastapi.responses import JSONResponse, PlainTextResponse

from ouzel.config.schema import DeployConfig, LlmConfig
from ouzel.errors import BusyError, ConfigError, EngineError, NotReadyError, OuzelError, RequestError
from ouzel.orchestrator import remote_language
from ouzel.orchestrator.generation import Generation
from ouzel.orchestrator.language import LanguageState
from ouzel.orchestrator.remote_language import RemoteLanguage
from ouzel.orchestrator.serving import language_of
from ouzel.stages.core import FinishReason
from ouzel.stages.language import (
    LanguageRequest,
    LanguageSampling,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)

HELLO = LanguageRequest(messages=({"role": "user", "content": "Hello"},))


def chat(content: str | None = None, finish: str | None = None, *, index: int = 0, **delta: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": {"content": content, **delta}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def counted(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **more}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage}


def text(content: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "text": content, "finish_reason": finish, **more}
    return {"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]}


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with listening() as found:
        yield found


@asynccontextmanager
async def calling(
    url: str, *, clock: Callable[[], float] = time.monotonic, **options: Any
) -> AsyncIterator[RemoteLanguage]:
    language = RemoteLanguage(LlmConfig(url=url, **options), clock=clock)
    await language.start()
    try:
        yield language
    finally:
        await language.stop()


async def until(condition: Callable[[], object], within: float = 15.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it didn't happen"
        await asyncio.sleep(0.005)


async def all_of(generation: Generation) -> list[TextDelta]:
    return [delta async for delta in generation]


async def test_a_conversation_is_answered_as_by_a_stage(endpoint: Endpoint) -> None:
    endpoint.answer = [
        chat("", role="assistant"),
        chat(None, reasoning_content="Hm. "),
        chat("Hel"),
        chat("lo."),
        chat("", "stop"),
        counted(5, 3, prompt_tokens_details={"cached_tokens": 2}, completion_tokens_details={"reasoning_tokens": 1}),
        "[DONE]",
    ]
    async with calling(endpoint.url) as language:
        generation = language.generate(HELLO, "r1")
        deltas = await all_of(generation)
    assert [(delta.content, delta.reasoning) for delta in deltas] == [("", "Hm. "), ("Hel", ""), ("lo.", ""), ("", "")]
    assert [delta.sequence for delta in deltas] == [0, 1, 2, 3]
    usage = Usage(prompt_tokens=5, completion_tokens=3, cached_tokens=2, reasoning_tokens=1)
    assert deltas[-1].finish is generation.finish is FinishReason.STOP and deltas[-1].usage == usage
    assert [delta.last for delta in deltas] == [False, False, False, True], "the usage came after the finish"
    path, body = endpoint.asked[0]
    assert path == "/v1/chat/completions"
    assert body == {
        "model": "far-away",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }, "nothing that wasn't wished for"


async def test_every_wish_reaches_the_endpoint(endpoint: Endpoint) -> None:
    endpoint.answer = [chat("x", "length"), chat("y", "stop", index=1), "[DONE]"]
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}
    request = LanguageRequest(
        messages=({"role": "user", "content": "Hello"},),
        tools=(tool,),
        tool_choice="named",
        tool_name="look",
        parallel_tool_calls=False,
        response_format=schema,
        template={"enable_thinking": False},
        n=2,
        sampling=LanguageSampling(
            temperature=0.5,
            top_p=0.9,
            top_k=3,
            min_p=0.1,
            presence_penalty=0.2,
            frequency_penalty=0.3,
            repetition_penalty=1.1,
            seed=7,
            max_tokens=9,
            stop=("a", "b"),
            ignore_eos=True,
            logprobs=2,
        ),
    )
    async with calling(endpoint.url, url_model="mine") as language:
        generation = language.generate(request, "r1")
        assert [(delta.index, delta.last) for delta in await all_of(generation)] == [(0, False), (1, True)]
        assert generation.finish is FinishReason.LENGTH and generation.usage == Usage(
            prompt_tokens=0, completion_tokens=0
        ), "it doesn't count"
    assert endpoint.asked[0][1] == {
        "model": "mine",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [tool],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": False,
        "response_format": schema,
        "n": 2,
        "temperature": 0.5,
        "top_p": 0.9,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "seed": 7,
        "max_tokens": 9,
        "stop": ["a", "b"],
        "logprobs": True,
        "top_logprobs": 2,
        "top_k": 3,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "ignore_eos": True,
        "chat_template_kwargs": {"enable_thinking": False},
    }


async def test_a_prompt_goes_to_completions_as_text_or_as_tokens(endpoint: Endpoint) -> None:
    said = {"tokens": ["a", "é"], "token_logprobs": [-0.5, None], "top_logprobs": [{"a": -0.5, "b": -99999.0}, None]}
    endpoint.answer = [text("aé", logprobs={**said, "text_offset": [0, 1]}), text("", "length"), counted(2, 2)]
    async with calling(endpoint.url) as language:
        sampling = LanguageSampling(logprobs=1, max_tokens=2)
        deltas = await all_of(language.generate(LanguageRequest(prompt="One", sampling=sampling), "r1"))
        await all_of(language.generate(LanguageRequest(prompt_ids=(1, 2)), "r2"))
    assert [delta.content for delta in deltas] == ["aé", ""] and deltas[-1].finish is FinishReason.LENGTH
    a, e = deltas[0].logprobs
    low = TokenLogprob(token="b", bytes=(98,), logprob=-9999.0)
    top = (TokenLogprob(token="a", bytes=(97,), logprob=-0.5), low)
    assert a == TokenLogprob(token="a", bytes=(97,), logprob=-0.5, top=top), "never below what JSON can say"
    assert e == TokenLogprob(token="é", bytes=(195, 169), logprob=-9999.0)
    (path, first), (_, second) = endpoint.asked
    assert path == "/v1/completions" and (first["prompt"], first["logprobs"]) == ("One", 1)
    assert second["prompt"] == [1, 2] and "logprobs" not in second


async def test_tool_calls_and_logprobs_of_a_conversation(endpoint: Endpoint) -> None:
    one = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}
    more = {"index": 0, "function": {"arguments": '{"at": 1}'}}
    logprobs = {"content": [{"token": "x", "logprob": -1.5, "bytes": [120], "top_logprobs": []}]}
    begun = chat(tool_calls=[one])
    begun["choices"][0]["logprobs"] = logprobs
    endpoint.answer = [begun, chat(tool_calls=[more]), chat(None, "tool_calls"), "[DONE]"]
    async with calling(endpoint.url) as language:
        deltas = await all_of(language.generate(HELLO, "r1"))
    assert [delta.tool_calls for delta in deltas] == [
        (ToolCallDelta(index=0, id="call_1", name="look"),),
        (ToolCallDelta(index=0, arguments='{"at": 1}'),),
        (),
    ]
    assert deltas[0].logprobs == (TokenLogprob(token="x", bytes=(120,), logprob=-1.5),)
    assert deltas[-1].finish is FinishReason.TOOL_CALLS


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (400, RequestError, "^the template wants a user first$"),
        (422, RequestError, "^the template wants a user first$"),
        (401, EngineError, "OUZEL_LLM_API_KEY should have: the template"),
        (404, EngineError, "no such model or path; see llm.url and llm.url_model"),
        (429, BusyError, "is busy"),
        (503, NotReadyError, "isn't serving"),
        (500, EngineError, "the template"),
    ],
)
async def test_what_the_endpoint_refuses_is_an_error_of_ours(
    endpoint: Endpoint, status: int, error: type[OuzelError], words: str
) -> None:
    async with calling(endpoint.url, url_model="mine") as language:
        endpoint.refuse(status, "the template wants a user first", param="messages")
        with pytest.raises(error, match=words) as told:
            await language.generate(HELLO, "r1").wait()
        assert type(told.value) is error and len(endpoint.asked) == 1, "asked once"
        if error is RequestError:
            assert told.value.param == "messages"
        assert language.status().open_requests == 0 and language.status().state is LanguageState.REMOTE


async def test_a_refusal_in_plain_words(endpoint: Endpoint) -> None:
    async with calling(endpoint.url, url_model="mine") as language:
        endpoint.refusal = JSONResponse({"detail": "no such field"}, 422)
        with pytest.raises(RequestError, match="^no such field$"):
            await language.generate(HELLO, "r1").wait()
        endpoint.refusal = PlainTextResponse("bad gateway", 502)
        with pytest.raises(NotReadyError, match="isn't serving"):
            await language.generate(HELLO, "r2").wait()


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ([chat("Hel"), {"error": {"message": "out of memory", "code": 500}}], EngineError, "out of memory"),
        ([chat("Hel"), {"error": {"message": "too long", "code": 400}}], RequestError, "^too long$"),
        ([chat("Hel"), "[DONE]"], EngineError, "ended before its answer did"),
        ([chat("Hel"), 0.1, OSError("a cable")], EngineError, "broke off: .*incomplete chunked read"),
        ([chat("Hel")], EngineError, "ended before its answer did"),
        ([chat("Hel"), "{no JSON"], EngineError, "JSON"),
        ([chat("Hel"), chat("", "content_filter")], EngineError, "'content_filter'"),
        ([chat("Hel"), chat("", "stop"), chat("lo")], EngineError, "went on with choice 0 after its end"),
        ([chat("Hel"), chat("x", index=1)], EngineError, "went on with choice 1"),
    ],
)
async def test_an_answer_that_goes_wrong_is_told_from_one_that_ends(
    endpoint: Endpoint, answer: list[object], error: type[OuzelError], words: str
) -> None:
    endpoint.answer = answer
    async with calling(endpoint.url) as language:
        generation, heard = language.generate(HELLO, "r1"), []
        with pytest.raises(error, match=words):
            async for delta in generation:
                heard.append(delta.content)  # noqa: PERF401
        assert heard == ["Hel"], "what came before is still told"
        assert generation.finish is FinishReason.ERROR and language.status().open_requests == 0
        await until(lambda: not language._relays)


async def test_an_abort_closes_the_stream_at_the_endpoint(endpoint: Endpoint) -> None:
    endpoint.answer = [chat("Hel"), *[0.01, chat("lo")] * 1000]
    async with calling(endpoint.url) as language:
        generation = language.generate(HELLO, "mine")
        await anext(generation)
        assert language.abort("mine") and not language.abort("mine")
        assert await all_of(generation) == [] and generation.finish is FinishReason.CANCELLED
        await until(lambda: endpoint.left == 1 and endpoint.open == 0)
        async with language.generate(HELLO, "r2") as left:
            await anext(left)
        await until(lambda: endpoint.left == 2)
        language.generate(HELLO, "r3").abort()
        await until(lambda: not language._relays)


async def test_one_that_is_aborted_before_all_is_ready_takes_nothing_from_the_others(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, load = threading.Event(), remote_language._client

    def slowly(url: str, api_key: str | None) -> Any:
        loaded.wait(10)
        return load(url, api_key)

    monkeypatch.setattr(remote_language, "_client", slowly)
    endpoint.answer = [chat("x", "stop")]
    async with calling(endpoint.url) as language:
        aborted, other = language.generate(HELLO, "r1"), language.generate(HELLO, "r2")
        await asyncio.sleep(0.01)
        aborted.abort()
        await asyncio.sleep(0.01)
        loaded.set()
        assert [delta.content for delta in await all_of(other)] == ["x"]


async def test_leaving_ends_those_who_still_read(endpoint: Endpoint) -> None:
    endpoint.answer = [chat("Hel"), 60]
    async with calling(endpoint.url) as language:
        generation = language.generate(HELLO, "r1")
        await anext(generation)
    assert generation.finish is FinishReason.CANCELLED
    await until(lambda: endpoint.left == 1)
    with pytest.raises(NotReadyError, match="stopped"):
        language.generate(HELLO, "r2")


async def test_beyond_the_bound_it_is_busy(endpoint: Endpoint) -> None:
    endpoint.answer = [chat("Hel"), 60]
    async with calling(endpoint.url, max_num_seqs=2, max_waiting=1) as language:
        kept = [language.generate(HELLO, f"r{number}") for number in range(3)]
        with pytest.raises(BusyError, match="2 requests are running and 1 waiting"):
            language.generate(HELLO, "one too many")
        assert len(kept) == 3


async def test_an_endpoint_that_falls_silent_ends_the_request(endpoint: Endpoint) -> None:
    endpoint.answer = [chat("Hel"), 60]
    now = 100.0
    async with calling(endpoint.url, clock=lambda: now) as language:
        generation = language.generate(HELLO, "r1")
        await anext(generation)
        now += 150
        with pytest.raises(EngineError, match="no progress for 150"):
            await all_of(generation)
        await until(lambda: endpoint.left == 1)


async def test_one_that_is_not_there_yet_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}/v1"
    async with calling(f"http://user:secret@{address}") as language:
        await until(lambda: "can't be reached" in language.status().reason)
        assert language.status().state is LanguageState.LOADING and language.status().facts is None
        with pytest.raises(NotReadyError, match=f"the language endpoint http://{address} can't be reached"):
            await language.generate(HELLO, "r1").wait()


async def test_it_takes_the_first_model_that_is_listed(endpoint: Endpoint) -> None:
    endpoint.models = [{"id": "big", "object": "model", "max_model_len": 4096}, {"id": "small", "object": "model"}]
    async with calling(endpoint.url) as language:
        await until(lambda: language.status().facts)
        status = language.status()
        assert status.facts is not None and (status.model, status.facts.context) == ("big", 4096)
        assert status.state is LanguageState.REMOTE and status.serving and status.to_json()["state"] == "remote"
        assert language.spans == () and await language.snapshots() == []
    endpoint.models = []
    async with calling(endpoint.url) as language:
        with pytest.raises(EngineError, match="lists no model; set llm.url_model"):
            await language.generate(HELLO, "r1").wait()


async def test_only_its_own_key_leaves_the_house(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", "of-openai")
    endpoint.answer = [chat("x", "stop")]
    config = DeployConfig(llm=LlmConfig(url=endpoint.url))
    for environ, bearer in (({"OUZEL_LLM_API_KEY": "of-endpoint"}, "Bearer of-endpoint"), ({}, "Bearer none")):
        endpoint.headers.clear()
        language = language_of(config, environ=environ)
        assert isinstance(language, RemoteLanguage)
        await language.start()
        await all_of(language.generate(HELLO, "r1"))
        await language.stop()
        assert {headers.get("authorization") for headers in endpoint.headers} == {bearer}
        assert len(endpoint.headers) >= 2 and "of-openai" not in str(endpoint.headers)
        assert not [headers for headers in endpoint.headers if "openai-organization" in headers]


def test_settings_that_cannot_be_served(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="llm.url is 'localhost:8000'; give http"):
        RemoteLanguage(LlmConfig(url="localhost:8000"))
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match=r"pip install ouzel\[remote\]"):
        RemoteLanguage(LlmConfig(url="http://localhost:8000/v1"))


async def test_an_endpoint_takes_the_place_of_the_stage() -> None:
    config = LlmConfig(url="http://localhost:8000/v1", model="some/folder")
    assert isinstance(language_of(DeployConfig(llm=config)), RemoteLanguage)
    assert language_of(DeployConfig()) is None
