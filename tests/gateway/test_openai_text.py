"""The `openai` package writing and chatting as its users call it, unmodified, at once and in threads; and curl."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from typing import TypeVar

import openai
import pytest
from fake_language import MODEL, PROMPT_TOKENS, TEXT, WORDS, FakeLanguage, said, script, token
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel
from running import Running, running, until

from ouzel.errors import BusyError, EngineError, NotReadyError
from ouzel.stages.core import FinishReason
from ouzel.stages.language import ToolCallDelta

pytestmark = pytest.mark.asyncio(loop_scope="module")

T = TypeVar("T")

USER = {"role": "user", "content": "What is the capital of France?"}
ASKED = {"model": MODEL, "messages": [USER]}


class City(BaseModel):
    name: str
    country: str


def client_of(server: Running, key: str = "unused") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=key, max_retries=0)


async def in_thread(server: Running, work: Callable[[OpenAI], T]) -> T:
    """The sync client, which blocks its thread."""

    def call() -> T:
        with OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="unused", max_retries=0) as client:
            return work(client)

    return await asyncio.to_thread(call)


async def test_create(writer: Running) -> None:
    async with client_of(writer) as client:
        reply = await client.chat.completions.create(**ASKED, temperature=0, seed=1, stop=["\n"], max_tokens=20)
        assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == (TEXT, "stop")
        assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (PROMPT_TOKENS, len(WORDS))
        text = await client.completions.create(model=MODEL, prompt="The capital", n=2, echo=True)
        assert [choice.text for choice in text.choices] == ["The capital" + TEXT] * 2


async def test_create_streamed(writer: Running) -> None:
    async with client_of(writer) as client:
        stream = await client.chat.completions.create(**ASKED, stream=True, stream_options={"include_usage": True})
        *others, last = [chunk async for chunk in stream]
        deltas = [chunk.choices[0].delta for chunk in others]
        assert (deltas[0].role, "".join(delta.content or "" for delta in deltas)) == ("assistant", TEXT)
        assert (last.choices, last.usage.total_tokens) == ([], PROMPT_TOKENS + len(WORDS))
        assert all(chunk.usage is None for chunk in others)
        text = await client.completions.create(model=MODEL, prompt="The capital", stream=True)
        assert "".join([chunk.choices[0].text async for chunk in text]) == TEXT


async def test_the_sync_client(writer: Running) -> None:
    whole = await in_thread(writer, lambda client: client.chat.completions.create(**ASKED))
    assert whole.choices[0].message.content == TEXT
    chunks = await in_thread(writer, lambda client: list(client.chat.completions.create(**ASKED, stream=True, n=2)))
    for index in (0, 1):
        said_of = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
        assert "".join(choice.delta.content or "" for choice in said_of) == TEXT
        assert said_of[-1].finish_reason == "stop"
    text = await in_thread(writer, lambda client: client.completions.create(model=MODEL, prompt=[1, 2], logprobs=0))
    assert text.choices[0].logprobs.tokens == list(WORDS)


async def test_logprobs(writer: Running) -> None:
    tokens = (token("Paris", -0.25, [("Paris", -0.25), ("Rome", -2.0)]),)
    writer.language.script = script(said("Paris", logprobs=tokens, finish=FinishReason.STOP))
    async with client_of(writer) as client:
        reply = await client.chat.completions.create(**ASKED, logprobs=True, top_logprobs=2)
        (found,) = reply.choices[0].logprobs.content
        assert (found.token, found.logprob, bytes(found.bytes)) == ("Paris", -0.25, b"Paris")
        assert [(one.token, one.logprob) for one in found.top_logprobs] == [("Paris", -0.25), ("Rome", -2.0)]


async def test_tools(writer: Running) -> None:
    tool = openai.pydantic_function_tool(City, name="look_up")
    writer.language.script = script(
        said("Let me look. ", tool_calls=(ToolCallDelta(index=0, id="call_a", name="look_up"),)),
        said(tool_calls=(ToolCallDelta(index=0, arguments='{"name": "Paris", '),)),
        said(tool_calls=(ToolCallDelta(index=0, arguments='"country": "France"}'),), finish=FinishReason.TOOL_CALLS),
    )
    async with client_of(writer) as client:
        reply = await client.chat.completions.parse(**ASKED, tools=[tool])
        (call,) = reply.choices[0].message.tool_calls
        assert (call.id, call.function.parsed_arguments) == ("call_a", City(name="Paris", country="France"))
        async with client.chat.completions.stream(**ASKED, tools=[tool]) as stream:
            final = await stream.get_final_completion()
        assert final.choices[0].message.tool_calls[0].function.parsed_arguments == City(name="Paris", country="France")
        assert final.choices[0].finish_reason == "tool_calls"
        answered = [USER, final.choices[0].message, {"role": "tool", "tool_call_id": "call_a", "content": "found"}]
        writer.language.reset()
        await client.chat.completions.create(model=MODEL, messages=answered, tools=[tool], tool_choice="none")
    assistant = writer.language.asked[0].messages[1]
    assert assistant["tool_calls"][0]["function"]["name"] == "look_up"


async def test_a_json_schema(writer: Running) -> None:
    writer.language.script = script(said('{"name": "Paris", '), said('"country": "France"}', finish=FinishReason.STOP))
    async with client_of(writer) as client:
        reply = await client.chat.completions.parse(**ASKED, response_format=City)
        assert reply.choices[0].message.parsed == City(name="Paris", country="France")
        async with client.chat.completions.stream(**ASKED, response_format=City) as stream:
            assert (await stream.get_final_completion()).choices[0].message.parsed.name == "Paris"
    for asked in writer.language.asked:
        assert asked.response_format["json_schema"]["schema"]["required"] == ["name", "country"]


async def test_reasoning(writer: Running) -> None:
    writer.language.script = script(said(reasoning="Hm."), said("Paris.", finish=FinishReason.STOP))
    async with client_of(writer) as client:
        wish = {"reasoning_effort": "low", "extra_body": {"chat_template_kwargs": {"enable_thinking": True}}}
        reply = await client.chat.completions.create(**ASKED, **wish)
        assert (reply.choices[0].message.reasoning_content, reply.choices[0].message.content) == ("Hm.", "Paris.")
    assert writer.language.asked[0].template == {"reasoning_effort": "low", "enable_thinking": True}


async def test_models(writer: Running) -> None:
    async with client_of(writer) as client:
        assert [model.id async for model in client.models.list()] == [MODEL, "ouzel-fake"]
        assert (await client.models.retrieve(MODEL)).id == MODEL


async def test_errors_come_as_the_packages_own(writer: Running) -> None:
    async with client_of(writer) as client:
        image = [{"type": "image_url", "image_url": {"url": "data:"}}]
        with pytest.raises(openai.BadRequestError, match="'image_url' aren't served here") as caught:
            await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": image}])
        assert caught.value.param == "messages[0].content[0]"
        for error, kind in (
            (BusyError("16 requests wait"), openai.RateLimitError),
            (NotReadyError("loading"), openai.InternalServerError),
        ):
            writer.language.refusal = error
            with pytest.raises(kind, match=str(error)):
                await client.chat.completions.create(**ASKED, stream=True)
        writer.language.reset()
        writer.language.fault = (2, EngineError("the language stage died"))
        stream = await client.chat.completions.create(**ASKED, stream=True)
        with pytest.raises(openai.APIError, match="the language stage died"):
            _ = [chunk async for chunk in stream]


async def test_closing_a_stream_ends_the_work(writer: Running) -> None:
    writer.language.gate.clear()
    writer.language.free_deltas = 2
    async with client_of(writer) as client:
        async with await client.chat.completions.create(**ASKED, stream=True) as stream:
            assert (await anext(aiter(stream))).choices[0].delta.role == "assistant"
        await until(lambda: writer.language.running == 0)
    assert writer.language.deltas_made == 2


async def test_a_wrong_key_is_an_authentication_error() -> None:
    async with running(key="right", language=FakeLanguage()) as server:
        async with client_of(server, "wrong") as client:
            with pytest.raises(openai.AuthenticationError, match="the API key is wrong"):
                await client.chat.completions.create(**ASKED)
        async with client_of(server, "right") as client:
            assert (await client.chat.completions.create(**ASKED)).choices[0].message.content == TEXT


async def curl(server: Running, path: str, body: object, *options: str) -> str:
    url = f"http://127.0.0.1:{server.port}/v1/{path}"
    command = ["curl", "-sN", *options, url, "-d", json.dumps(body)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout


async def test_curl_as_everyone_types_it(writer: Running) -> None:
    said_of = json.loads(await curl(writer, "chat/completions", {"temperature": 0, "messages": [USER]}))
    assert "Paris" in said_of["choices"][0]["message"]["content"]
    assert json.loads(await curl(writer, "completions", {"prompt": "The capital"}))["choices"][0]["text"] == TEXT
    *events, done, end = (await curl(writer, "chat/completions", {"messages": [USER], "stream": True})).split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    deltas = [json.loads(event.removeprefix("data: "))["choices"][0]["delta"] for event in events]
    assert "".join(delta.get("content", "") for delta in deltas) == TEXT


async def test_curl_that_is_stopped_ends_the_work(writer: Running) -> None:
    writer.language.gate.clear()
    writer.language.free_deltas = 1
    url = f"http://127.0.0.1:{writer.port}/v1/chat/completions"
    body = json.dumps({"messages": [USER], "stream": True})
    curling = await asyncio.create_subprocess_exec("curl", "-sN", url, "-d", body, stdout=asyncio.subprocess.PIPE)
    assert curling.stdout is not None
    assert (await curling.stdout.readline()).startswith(b"data: ")
    curling.terminate()
    await curling.wait()
    await until(lambda: writer.language.running == 0)
