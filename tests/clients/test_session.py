from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from fake_speaker import frames_of, tone
from running import Running, running, until

from ouzel.audio.wav import pcm16
from ouzel.errors import BusyError, EngineError
from ouzel.gateway.speaker import Health, State
from ouzel_client import (
    Audio,
    Done,
    Event,
    ServerError,
    Started,
    TextError,
    Timing,
    UnreachableError,
    connect,
    speak_over_http,
)
from ouzel_client.session import socket_url

TEXT = "The river keeps its own time."


def url_of(server: Running) -> str:
    return f"http://127.0.0.1:{server.port}"


def samples(text: str) -> bytes:
    return pcm16(tone(text, 0, frames_of(text)))


def audio(events: list[Event]) -> bytes:
    return b"".join(event.data for event in events if isinstance(event, Audio))


async def test_a_text_from_start_to_end(server: Running) -> None:
    async with connect(url_of(server), voice="robin") as session:
        assert (session.voices, session.sample_rate) == (("wren", "robin"), 24_000)
        events = [event async for event in session.speak(TEXT)]
    assert events[0] == Started("pcm", 24_000)
    assert audio(events) == samples(TEXT)
    assert events[-1] == Done("stop", frames_of(TEXT), 80 * frames_of(TEXT))
    assert server.speaker.asked[0].speaker == "robin"


async def test_text_in_pieces_sounds_before_it_ends(server: Running) -> None:
    sounding = asyncio.Event()

    async def pieces() -> AsyncIterator[str]:
        yield "One sentence. "
        yield "And"
        await sounding.wait()
        yield " another."

    heard = []
    async with connect(url_of(server)) as session:
        async for event in session.speak(pieces()):
            heard.append(event)
            sounding.set()
    assert audio(heard) == samples("One sentence. ") + samples("And another.")


async def test_timing_comes_where_it_is_asked_for(server: Running) -> None:
    async with connect(url_of(server), timing=True) as session:
        timings = [event.fields async for event in session.speak(TEXT) if isinstance(event, Timing)]
    assert [timing["frame"] for timing in timings] == [0, 2, 6]


async def test_leaving_early_cancels_and_the_next_text_is_clean(server: Running) -> None:
    server.speaker.gate.clear()
    server.speaker.free_chunks = 2
    async with connect(url_of(server)) as session:
        speech = session.speak("a" * 200)
        assert isinstance(await anext(speech), Started)
        await speech.aclose()
        await until(lambda: server.speaker.running == 0)
        server.speaker.gate.set()
        assert audio([event async for event in session.speak(TEXT)]) == samples(TEXT)


@pytest.mark.parametrize("begun", [False, True])
async def test_a_source_that_fails_cancels_and_the_next_text_is_clean(server: Running, begun: bool) -> None:
    async def pieces() -> AsyncIterator[str]:
        if begun:
            yield "One sentence. "
        raise TextError("no more")

    async with connect(url_of(server)) as session:
        with pytest.raises(TextError):
            async for _ in session.speak(pieces()):
                continue
        assert audio([event async for event in session.speak(TEXT)]) == samples(TEXT)


async def test_what_the_server_refuses_has_its_words_and_a_code(server: Running) -> None:
    with pytest.raises(ServerError, match="'nobody' is no voice here") as caught:
        async with connect(url_of(server), voice="nobody"):
            pass
    assert (caught.value.exit_code, caught.value.param) == (2, "voice")
    async with connect(url_of(server)) as session:
        server.speaker.refusal = BusyError("full")
        with pytest.raises(ServerError, match="full") as caught:
            [event async for event in session.speak(TEXT)]
        assert caught.value.exit_code == 4
        server.speaker.refusal, server.speaker.fault = None, EngineError("the talker died")
        with pytest.raises(ServerError, match="the talker died") as caught:
            [event async for event in session.speak(TEXT)]
        assert caught.value.exit_code == 1
    server.speaker.state = Health(State.LOADING, "weights")
    with pytest.raises(ServerError, match="loading: weights"):
        async with connect(url_of(server)):
            pass


async def test_the_key_is_sent() -> None:
    async with running(key="right") as server:
        async with connect(url_of(server), api_key="right"):
            pass
        with pytest.raises(ServerError, match="the API key is wrong") as caught:
            async with connect(url_of(server), api_key="wrong"):
                pass
        assert caught.value.exit_code == 3


async def test_an_address_without_a_server_is_said(unused_tcp_port: int) -> None:
    with pytest.raises(UnreachableError, match=f"nobody answers at http://127.0.0.1:{unused_tcp_port}"):
        async with connect(f"http://127.0.0.1:{unused_tcp_port}"):
            pass


async def test_a_server_that_goes_is_said(server: Running) -> None:
    server.speaker.gate.clear()
    with pytest.raises(UnreachableError, match="ended the connection"):
        async with connect(url_of(server)) as session:
            server.server.stop()
            async for _ in session.speak("One. Two."):
                continue


@pytest.mark.parametrize(
    ("given", "opened"),
    [
        ("http://a:1", "ws://a:1/v1/audio/speech/stream"),
        ("https://a/", "wss://a/v1/audio/speech/stream"),
        ("a:1", "ws://a:1/v1/audio/speech/stream"),
        ("ws://a/other?x=1", "ws://a/other?x=1"),
    ],
)
def test_the_address_of_the_socket(given: str, opened: str) -> None:
    assert socket_url(given) == opened


async def test_plain_http_gives_the_same_samples(server: Running) -> None:
    events = [event async for event in speak_over_http(url_of(server), TEXT, seed=3)]
    assert events[0] == Started("pcm", 24_000)
    assert audio(events) == pcm16(tone(TEXT, 0, frames_of(TEXT), 3))
    assert events[-1] == Done("stop", frames_of(TEXT), 80 * frames_of(TEXT))


async def test_plain_http_says_what_went_wrong(server: Running) -> None:
    with pytest.raises(ServerError, match="not an empty or blank one"):
        [event async for event in speak_over_http(url_of(server), " ")]
    server.speaker.fault = EngineError("the talker died")
    with pytest.raises(UnreachableError):
        [event async for event in speak_over_http(url_of(server), TEXT)]
