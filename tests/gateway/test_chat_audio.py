"""Chat completions with `modalities: ["text", "audio"]`, spoken to by the official client."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from fake_language import TEXT, FakeLanguage, said, script
from fake_speaker import frames_of, tone
from openai import APIError, AsyncOpenAI, BadRequestError
from running import Running, running, until

from ouzel.audio.wav import pcm16
from ouzel.errors import EngineError, RequestError
from ouzel.gateway.chat_rest import Transcripts
from ouzel.gateway.speaker import Health, State
from ouzel.stages.core import FinishReason
from ouzel.stages.language import ToolCallDelta

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _answering() -> AsyncGenerator[Running, None]:
    async with running(language=FakeLanguage()) as found:
        yield found


@pytest.fixture
def server(_answering: Running) -> Running:
    _answering.speaker.reset()
    _answering.language.reset()
    return _answering


@pytest_asyncio.fixture(loop_scope="module")
async def client(server: Running) -> AsyncGenerator[AsyncOpenAI, None]:
    async with AsyncOpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="x", max_retries=0) as one:
        yield one


def asking(format_name: str = "wav", **more: Any) -> dict[str, Any]:
    audio = {"voice": "alloy", "format": format_name}
    return {"model": "m", "messages": QUESTION, "modalities": ["text", "audio"], "audio": audio} | more


def sound(server: Running, seed: int | None = None) -> bytes:
    return b"".join(pcm16(tone(one, 0, frames_of(one), seed)) for one in server.speaker.pieces)


async def test_an_answer_is_spoken_into_one_file(server: Running, client: AsyncOpenAI) -> None:
    reply = await client.chat.completions.create(**asking(seed=3))
    message = reply.choices[0].message
    assert message.content is None and message.audio is not None
    assert (message.audio.transcript, reply.choices[0].finish_reason) == (TEXT, "stop")
    assert message.audio.id.startswith("audio_") and message.audio.expires_at > reply.created
    with wave.open(io.BytesIO(base64.b64decode(message.audio.data))) as reader:
        assert reader.readframes(reader.getnframes()) == sound(server, 3)
        assert reader.getframerate() == 24_000
    assert "".join(server.speaker.pieces) == TEXT
    assert reply.usage is not None and reply.usage.completion_tokens > 0


@pytest.mark.parametrize(
    ("name", "begins"), [("mp3", b"\xff"), ("flac", b"fLaC"), ("opus", b"OggS"), ("aac", b"\xff"), ("pcm16", b"")]
)
async def test_every_format_is_what_it_says(server: Running, client: AsyncOpenAI, name: str, begins: bytes) -> None:
    reply = await client.chat.completions.create(**asking(name))
    assert reply.choices[0].message.audio is not None
    data = base64.b64decode(reply.choices[0].message.audio.data)
    assert data.startswith((begins, b"ID3") if name == "mp3" else begins) and data
    if name == "pcm16":
        assert data == sound(server)


async def test_a_stream_interleaves_transcript_and_sound(server: Running, client: AsyncOpenAI) -> None:
    server.language.script = script(said("It is Paris. "), said("Really", finish=FinishReason.STOP))
    server.language.free_deltas = 1
    server.language.gate.clear()
    stream = await client.chat.completions.create(
        **asking("pcm16", stream=True, stream_options={"include_usage": True})
    )
    transcript, data, finish, ids, kinds = "", b"", [], set(), []
    async for chunk in stream:
        if not chunk.choices:
            kinds.append("usage")
            assert chunk.usage is not None and chunk.usage.prompt_tokens > 0
            continue
        finish.append(chunk.choices[0].finish_reason)
        found = chunk.choices[0].delta.audio
        audio = found.model_dump(exclude_unset=True) if found else {}
        kinds += audio.keys() - {"id"}
        ids |= {audio["id"]} if audio else set()
        transcript += audio.get("transcript", "")
        data += base64.b64decode(audio.get("data", ""))
        if data:
            # Sound came while the model stood still before its last word.
            assert server.language.gate.is_set() or server.language.deltas_made == 1
            server.language.gate.set()
    assert (transcript, data, len(ids)) == ("It is Paris. Really", sound(server), 1)
    assert kinds[0] == "transcript" and kinds[-2:] == ["expires_at", "usage"]
    assert finish[-1] == "stop" and set(finish[:-1]) == {None}
    assert kinds.index("data") < len(kinds) - 1 - kinds[::-1].index("transcript")


async def test_an_answer_may_be_named_by_its_id(server: Running, client: AsyncOpenAI) -> None:
    reply = await client.chat.completions.create(**asking())
    assert reply.choices[0].message.audio is not None
    earlier: Any = [*QUESTION, {"role": "assistant", "audio": {"id": reply.choices[0].message.audio.id}}, *QUESTION]
    await client.chat.completions.create(**asking(messages=earlier))
    assert server.language.asked[1].messages is not None
    assert server.language.asked[1].messages[1] == {"role": "assistant", "content": TEXT}
    with pytest.raises(BadRequestError, match="'audio_x' is no answer that is kept"):
        earlier[1]["audio"]["id"] = "audio_x"
        await client.chat.completions.create(**asking(messages=earlier))


async def test_transcripts_are_forgotten_after_a_while() -> None:
    now = [100.0]
    kept = Transcripts(lambda: now[0])
    until = kept.keep("a", "Text.")
    message = {"role": "assistant", "audio": {"id": "a"}, "content": None}
    assert kept.filled([message, "odd"]) == [{"role": "assistant", "content": "Text."}, "odd"]
    now[0] = float(until)
    for gone in (message, {"role": "assistant", "audio": "a"}, {"role": "assistant", "audio": {"id": ["a"]}}):
        with pytest.raises(RequestError, match="send its text as content"):
            kept.filled([gone])
    now[0] = 0
    for number in range(256):
        kept.keep(str(number), "")
    with pytest.raises(RequestError):
        kept.filled([message])


async def test_without_the_modality_nothing_is_spoken(server: Running, client: AsyncOpenAI) -> None:
    reply = await client.chat.completions.create(**asking(modalities=["text"]))
    assert (reply.choices[0].message.content, reply.choices[0].message.audio) == (TEXT, None)
    assert server.speaker.asked == []


async def test_an_answer_without_words_is_text_alone(server: Running, client: AsyncOpenAI) -> None:
    server.language.script = script(said("🙂", finish=FinishReason.STOP))
    reply = await client.chat.completions.create(**asking())
    assert (reply.choices[0].message.content, reply.choices[0].message.audio) == ("🙂", None)


async def test_a_tool_is_called_and_not_spoken(server: Running, client: AsyncOpenAI) -> None:
    call = ToolCallDelta(index=0, id="c", name="f", arguments="{}")
    server.language.script = script(said(tool_calls=(call,), finish=FinishReason.TOOL_CALLS))
    reply = await client.chat.completions.create(**asking())
    message = reply.choices[0].message
    assert message.tool_calls and message.audio is None and reply.choices[0].finish_reason == "tool_calls"
    stream = await client.chat.completions.create(**asking("pcm16", stream=True))
    chunks = [chunk.choices[0] async for chunk in stream]
    assert any(chunk.delta.tool_calls for chunk in chunks) and chunks[-1].finish_reason == "tool_calls"
    assert not any(chunk.delta.audio for chunk in chunks)


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"audio": None}, "audio"),
        ({"audio": {"voice": "alloy"}}, "audio"),
        ({"audio": {"voice": "alloy", "format": "ogg"}}, "audio"),
        ({"audio": {"voice": "nobody", "format": "wav"}}, "audio.voice"),
        ({"stream": True}, "audio.format"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"n": 2}, "n"),
    ],
)
async def test_what_does_not_go_together_is_said(server: Running, wrong: dict[str, Any], param: str) -> None:
    reply = await server.http.post("/v1/chat/completions", json=asking(**wrong))
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert server.language.asked == []


async def test_while_the_voice_loads_nothing_is_spoken(server: Running) -> None:
    server.speaker.state = Health(State.LOADING, "weights")
    reply = await server.http.post("/v1/chat/completions", json=asking())
    assert (reply.status_code, reply.json()["error"]["message"]) == (503, "loading: weights")


async def test_a_fault_of_the_voice_breaks_the_stream(server: Running, client: AsyncOpenAI) -> None:
    server.speaker.fault = EngineError("the talker died")
    stream = await client.chat.completions.create(**asking("pcm16", stream=True))
    with pytest.raises(APIError, match="the talker died"):
        async for _ in stream:
            continue
    assert (await server.http.post("/v1/chat/completions", json=asking())).status_code == 500
    assert (server.language.running, server.speaker.running) == (0, 0)


async def test_leaving_stops_both(server: Running, client: AsyncOpenAI) -> None:
    server.speaker.gate.clear()
    stream = await client.chat.completions.create(**asking("pcm16", stream=True))
    await until(lambda: server.speaker.running == 1)
    await stream.close()
    await until(lambda: (server.language.running, server.speaker.running) == (0, 0))
