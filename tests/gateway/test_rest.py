from __future__ import annotations

import asyncio
import base64
import io
import json
import unicodedata
import wave

import httpx
import numpy as np
import pytest
from fake_speaker import FRAME, frames_of, tone
from running import Running, running, until, with_gateway, with_limits

from ouzel.audio.formats import FORMATS
from ouzel.audio.wav import pcm16
from ouzel.errors import BusyError, EngineError, RequestError
from ouzel.gateway.voices import OPENAI_VOICES
from ouzel.stages.core import FinishReason

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/v1/audio/speech"
TEXT = "The river keeps its own time."


async def speech(server: Running, **fields: object) -> httpx.Response:
    return await server.http.post(PATH, json={"input": TEXT, "voice": "alloy", **fields})


def events(body: bytes) -> list[dict[str, object]]:
    lines = body.decode().split("\n\n")
    assert lines.pop() == ""
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def fault(reply: httpx.Response) -> dict[str, object]:
    """The error object, whose shape is the same for all."""
    body = reply.json()
    assert body.keys() == {"error"} and body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["code"] == reply.status_code
    assert reply.headers["content-type"] == "application/json"
    return body["error"]


@pytest.mark.parametrize("name", FORMATS)
async def test_each_format_is_what_its_content_type_says(server: Running, name: str) -> None:
    reply = await speech(server, response_format=name)
    starts = {"wav": b"RIFF", "flac": b"fLaC", "opus": b"OggS", "mp3": b"\xff\xf3", "aac": b"\xff\xf1"}
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith(FORMATS[name].media_type)
    assert reply.content.startswith(starts.get(name, pcm16(tone(TEXT, 0, 1))))


async def test_mp3_is_the_default(server: Running) -> None:
    assert (await speech(server)).headers["content-type"] == "audio/mpeg"


async def test_a_stream_has_the_headers_of_one(server: Running) -> None:
    headers = (await speech(server, response_format="wav")).headers
    assert (headers["cache-control"], headers["x-accel-buffering"], headers["accept-ranges"]) == (
        "no-cache",
        "no",
        "none",
    )
    assert "content-length" not in headers
    assert headers["server-timing"] == "queue;dur=1.0, text;dur=0.2, prefill;dur=3.0"


async def test_pcm_is_every_sample_and_nothing_else(server: Running) -> None:
    reply = await speech(server, response_format="pcm")
    assert reply.headers["content-type"] == "audio/pcm; rate=24000; channels=1"
    assert reply.content == pcm16(tone(TEXT, 0, frames_of(TEXT)))


async def test_a_streamed_wav_has_one_header_without_sizes(server: Running) -> None:
    body = (await speech(server, response_format="wav", input="One. Two. Three. Four. " * 8)).content
    assert body.count(b"RIFF") == 1
    assert body[4:8] == body[40:44] == b"\xff\xff\xff\xff"


async def test_a_buffered_wav_has_its_true_size(server: Running) -> None:
    reply = await speech(server, response_format="wav", stream=False)
    assert int(reply.headers["content-length"]) == len(reply.content)
    assert reply.headers["x-finish-reason"] == "stop"
    with wave.open(io.BytesIO(reply.content)) as reader:
        assert reader.getnframes() == (len(reply.content) - 44) / 2 == frames_of(TEXT) * FRAME


@pytest.mark.parametrize("name", ["wav", "mp3", "opus"])
async def test_streamed_and_buffered_bytes_are_the_same_audio(server: Running, name: str) -> None:
    streamed = (await speech(server, response_format=name)).content
    buffered = (await speech(server, response_format=name, stream=False)).content
    header = 44 if name == "wav" else 0
    assert streamed[header:] == buffered[header:]


async def test_audio_comes_while_it_is_made(server: Running) -> None:
    server.speaker.gate.clear()
    server.speaker.free_chunks = 1
    async with server.http.stream("POST", PATH, json={"input": TEXT, "response_format": "pcm"}) as reply:
        parts = reply.aiter_raw()
        assert await anext(parts) == pcm16(tone(TEXT, 0, 2))
        server.speaker.gate.set()
        assert b"".join([part async for part in parts]) == pcm16(tone(TEXT, 2, frames_of(TEXT) - 2))


async def test_events_hold_the_audio_and_its_usage(server: Running) -> None:
    reply = await speech(server, stream_format="sse", response_format="pcm")
    assert reply.headers["content-type"].startswith("text/event-stream")
    *deltas, done = events(reply.content)
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    audio = b"".join(base64.b64decode(str(delta["audio"])) for delta in deltas)
    assert audio == pcm16(tone(TEXT, 0, frames_of(TEXT)))
    made = frames_of(TEXT) * 16
    assert done == {
        "type": "speech.audio.done",
        "usage": {"input_tokens": 6, "output_tokens": made, "total_tokens": made + 6},
        "finish_reason": "stop",
    }


async def test_events_say_where_the_time_went_where_asked(server: Running) -> None:
    silent, *_ = events((await speech(server, stream_format="sse", response_format="pcm")).content)
    assert silent.keys() == {"type", "audio"}
    server.speaker.starved_ns = 3_000_000
    first, second, *_ = events((await speech(server, stream_format="sse", response_format="pcm", timing=True)).content)
    timing = first["timing"]
    assert isinstance(timing, dict)
    assert (timing["frame"], timing["frames"], timing["audio_ms"], timing["budget_ms"]) == (0, 2, 160, 160)
    assert timing["phases_ms"]["backbone"] == 16
    assert sum(timing["phases_ms"].values()) == pytest.approx(timing["used_ms"], abs=0.01)
    assert timing["before_ms"] == {"queue": 1.0, "text": 0.2}
    assert timing["starved_ms"] == 3
    assert second["timing"]["frame"] == 2  # type: ignore[index]


async def test_buffered_events_are_one_body_with_its_length(server: Running) -> None:
    reply = await speech(server, stream_format="sse", stream=False)
    assert int(reply.headers["content-length"]) == len(reply.content)
    assert events(reply.content)[-1]["type"] == "speech.audio.done"


async def test_the_steps_of_a_request_can_be_asked_for_later(server: Running) -> None:
    await server.http.post(PATH, json={"input": TEXT}, headers={"X-Request-Id": "a-request"})
    steps = (await server.http.get("/v1/audio/steps/a-request")).json()["data"]
    assert [step["frame"] for step in steps] == [0, 2, 6]
    assert sum(step["frames"] for step in steps) == frames_of(TEXT)
    assert fault(await server.http.get("/v1/audio/steps/another"))["param"] == "request_id"


async def test_every_wish_reaches_the_speaker(server: Running) -> None:
    wishes = {"language": "German", "instructions": "whisper", "seed": 7, "max_new_tokens": 5, "chunk_frames": [1, 2]}
    await speech(server, voice="robin", **wishes)
    asked = server.speaker.asked[0]
    assert (asked.speaker, asked.language, asked.instruct, asked.seed) == ("robin", "German", "whisper", 7)
    assert (asked.max_frames, asked.chunk_frames, asked.text) == (5, (1, 2), TEXT)


async def test_speed_and_rate_change_the_length(server: Running) -> None:
    fast = await speech(server, response_format="pcm", speed=2.0, input=TEXT * 4)
    low = await speech(server, response_format="pcm", sample_rate=8000, input=TEXT * 4)
    samples = frames_of(TEXT * 4) * FRAME
    assert len(fast.content) == pytest.approx(samples, rel=0.02)
    assert len(low.content) == pytest.approx(2 * samples / 3, abs=8)
    assert low.headers["content-type"] == "audio/pcm; rate=8000; channels=1"


@pytest.mark.parametrize("voice", [*OPENAI_VOICES, "wren", "Robin", {"id": "robin"}])
async def test_voices_and_aliases_are_known(server: Running, voice: object) -> None:
    assert (await speech(server, voice=voice)).status_code == 200
    assert server.speaker.asked[0].speaker in ("wren", "robin")


async def test_a_missing_voice_is_the_default_one(server: Running) -> None:
    await server.http.post(PATH, json={"input": TEXT})
    assert server.speaker.asked[0].speaker == "wren"


async def test_an_unknown_model_is_served_and_said(server: Running) -> None:
    reply = await speech(server, model="tts-1-größer")
    assert reply.status_code == 200
    assert reply.headers["warning"] == ('199 ouzel "model tts-1-gr\\u00f6\\u00dfer is not loaded; ouzel-fake serves"')
    assert "warning" not in (await speech(server, model="ouzel-fake")).headers


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", None])
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"])
async def test_a_missing_content_type_and_a_byte_order_mark_are_forgiven(
    server: Running, content_type: str | None, before: bytes
) -> None:
    headers = {"content-type": content_type} if content_type else {}
    reply = await server.http.post(PATH, content=before + b'{"input":"Hello there.","voice":"alloy"}', headers=headers)
    assert reply.status_code == 200


async def test_text_is_composed_before_it_is_spoken(server: Running) -> None:
    await speech(server, input=unicodedata.normalize("NFD", "schön Tür") + "\x00")
    assert server.speaker.asked[0].text == "schön Tür"


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        (b'{"input":"\xff"}', "body", "not UTF-8: byte 0xFF at offset 10"),
        (b"", None, "not JSON"),
        (b"{", None, "not JSON"),
        (b"[]", None, "a JSON object is needed, not list"),
        (b"[" * 100_000, None, "not JSON"),
        (b'{"input":"a","speed":NaN}', None, "NaN is no JSON number"),
        (b'{"input":"a","seed":' + b"9" * 5000 + b"}", None, "not JSON"),
        (b"{}", "input", "Field required"),
        (b'{"input":7}', "input", "string"),
        (b'{"input":"   \\n"}', "input", "not an empty or blank one"),
        (b'{"input":"\\ud800"}', "input", "half a surrogate pair"),
        (b'{"input":"a","voice":"no\\ud800one"}', "voice", "valid string"),
        (b'{"input":"a","voice":"nobody"}', "voice", "'nobody' is no voice here; valid are wren, robin, alloy"),
        (b'{"input":"a","voice":7}', "voice", ""),
        (b'{"input":"a","voice":{"name":"x"}}', "voice", ""),
        (b'{"input":"a","response_format":"ogg"}', "response_format", "valid are mp3, opus"),
        (b'{"input":"a","response_format":"opus","sample_rate":44100}', "sample_rate", "isn't possible in opus"),
        (b'{"input":"a","stream_format":"ndjson"}', "stream_format", "'audio' or 'sse'"),
        (b'{"input":"a","speed":5}', "speed", "outside 0.25 to 4"),
        (b'{"input":"a","speed":1e999}', "speed", "finite"),
        (b'{"input":"a","seed":-1}', "seed", "greater than or equal to 0"),
        (b'{"input":"a","chunk_frames":[]}', "chunk_frames", "at least 1 item"),
        (b'{"input":"a","ref_audio":"data:"}', "ref_audio", "not served here"),
    ],
)
async def test_bad_input_is_a_400_that_names_the_field(
    server: Running, body: bytes, param: str | None, words: str
) -> None:
    reply = await server.http.post(PATH, content=body)
    assert reply.status_code == 400
    error = fault(reply)
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert words in str(error["message"])
    assert server.speaker.running == 0


async def test_the_text_has_a_longest_length() -> None:
    async with running(with_limits(max_text_letters=30)) as server:
        assert (await speech(server, input="a" * 30)).status_code == 200
        reply = await speech(server, input="a" * 31)
        assert (reply.status_code, fault(reply)["param"]) == (400, "input")


async def test_the_body_has_a_largest_size() -> None:
    async with running(with_gateway(max_body_bytes=1024)) as server:
        reply = await server.http.post(PATH, content=b" " * 1025)
        assert (reply.status_code, "1024" in str(fault(reply)["message"])) == (413, True)
        assert (fault(reply)["type"], fault(reply)["code"]) == ("invalid_request_error", 413)

        async def unannounced():  # type: ignore[no-untyped-def]
            for _ in range(9):
                yield b" " * 128

        reply = await server.http.post(PATH, content=unannounced())
        assert reply.status_code == 413


async def test_a_body_that_does_not_come_is_given_up() -> None:
    async with running(with_gateway(send_deadline_s=0.1)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
        assert b'"type":"invalid_request_error"' in await reader.read()
        writer.close()
        await writer.wait_closed()


async def test_unknown_fields_are_ignored_unless_strict(server: Running) -> None:
    assert (await speech(server, volume=3)).status_code == 200
    reply = await server.http.post(f"{PATH}?strict=1", json={"input": "a", "volume": 3})
    assert (reply.status_code, fault(reply)["param"]) == (400, "volume")


async def test_a_text_that_the_voice_cannot_say_names_the_field(server: Running) -> None:
    server.speaker.refusal = RequestError("text: nothing in '...' can be said", param="text")
    reply = await speech(server)
    assert (reply.status_code, fault(reply)["param"]) == (400, "input")
    assert fault(reply)["message"] == "input: nothing in '...' can be said"


async def test_a_full_queue_is_a_429_that_says_when_to_come_back(server: Running) -> None:
    server.speaker.refusal = BusyError("16 requests wait already")
    for stream_format in ("audio", "sse"):
        reply = await speech(server, stream_format=stream_format)
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
        assert fault(reply)["type"] == "rate_limit_error"


async def test_a_fault_in_mid_stream_breaks_the_body_off(server: Running) -> None:
    server.speaker.fault = EngineError("the talker died")
    with pytest.raises(httpx.RemoteProtocolError):
        await speech(server, response_format="pcm")


async def test_a_fault_in_mid_stream_is_an_event(server: Running) -> None:
    server.speaker.fault = EngineError("the talker died")
    delta, error = events((await speech(server, stream_format="sse")).content)
    assert delta["type"] == "speech.audio.delta"
    assert error == {"error": {"message": "the talker died", "type": "server_error", "param": None, "code": 500}}


async def test_a_fault_of_a_buffered_request_is_a_500(server: Running) -> None:
    server.speaker.fault = EngineError("the talker died")
    reply = await speech(server, stream=False)
    assert (reply.status_code, fault(reply)["message"]) == (500, "the talker died")


async def test_silence_is_no_success(server: Running) -> None:
    server.speaker.silent = True
    for wishes in ({}, {"stream": False}, {"stream_format": "sse"}, {"response_format": "pcm"}):
        assert (await speech(server, **wishes)).status_code == 500


async def test_reaching_the_frame_limit_is_said(server: Running) -> None:
    server.speaker.reason = FinishReason.LENGTH
    assert (await speech(server, stream=False)).headers["x-finish-reason"] == "length"
    assert events((await speech(server, stream_format="sse")).content)[-1]["finish_reason"] == "length"


@pytest.mark.parametrize("fields", [{"stream": False}, {}, {"stream_format": "sse"}])
@pytest.mark.parametrize("free_chunks", [0, 1])
async def test_a_client_that_leaves_frees_its_slot(
    server: Running, fields: dict[str, object], free_chunks: int
) -> None:
    server.speaker.gate.clear()
    server.speaker.free_chunks = free_chunks
    request = asyncio.ensure_future(speech(server, response_format="pcm", **fields))
    await until(lambda: server.speaker.running == 1 and server.speaker.frames_made == 2 * free_chunks)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    await until(lambda: server.speaker.running == 0)
    server.speaker.gate.set()
    assert (await speech(server)).status_code == 200


async def test_a_slow_client_makes_its_own_talker_wait() -> None:
    async with running(with_limits(max_text_letters=200_000)) as server:
        text = "a" * 20_000  # 10,000 frames, 38 MB
        wish = {"input": text, "response_format": "pcm"}
        async with server.http.stream("POST", PATH, json=wish) as slow:
            await anext(slow.aiter_raw(1))
            other = await speech(server, response_format="pcm")
            assert len(other.content) == frames_of(TEXT) * FRAME * 2
            made = -1
            while server.speaker.frames_made != made:
                made = server.speaker.frames_made
                await asyncio.sleep(0.05)
            assert made < 5000


async def test_a_client_that_takes_nothing_is_dropped() -> None:
    config = with_limits(max_text_letters=200_000)
    config = type(config)(limits=config.limits, gateway=with_gateway(send_deadline_s=0.1).gateway)
    async with running(config) as server:
        async with server.http.stream("POST", PATH, json={"input": "a" * 20_000, "response_format": "pcm"}) as slow:
            await anext(slow.aiter_raw(1))
            await until(lambda: server.speaker.running == 0)


async def test_parallel_texts_give_their_own_audio(server: Running) -> None:
    texts = [f"Sentence number {n}." for n in range(4)]
    replies = await asyncio.gather(*(speech(server, input=text, response_format="pcm") for text in texts))
    assert [reply.content for reply in replies] == [pcm16(tone(text, 0, frames_of(text))) for text in texts]


@pytest.mark.parametrize("spans", ["bytes=0-1", "bytes=" + "0-," * 20_000 + "0-"])
async def test_a_range_is_not_looked_at(server: Running, spans: str) -> None:
    reply = await server.http.post(PATH, json={"input": TEXT}, headers={"Range": spans})
    assert (reply.status_code, reply.headers["accept-ranges"]) == (200, "none")


async def test_nothing_is_added_after_the_samples(server: Running) -> None:
    body = (await speech(server, response_format="wav", stream=False)).content
    assert np.abs(np.frombuffer(body[-40:], "<i2")).max() < 400
