from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from fake_speaker import frames_of, tone
from running import Running, running, until, with_gateway, with_limits
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ouzel.audio.chain import AudioChain
from ouzel.audio.wav import pcm16
from ouzel.errors import BusyError, EngineError
from ouzel.gateway.speaker import Health, State
from ouzel.stages.core import FinishReason

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "The river keeps its own time. So does a sentence."
SENTENCES = ["The river keeps its own time. ", "So does a sentence."]


@dataclass
class Session:
    """A client of another maker: JSON and bytes, nothing of ours."""

    socket: ClientConnection

    async def send(self, kind: str, **fields: object) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def say(self, *pieces: str) -> None:
        for piece in pieces:
            await self.send("input.text", text=piece)
        await self.send("input.done")

    async def next(self) -> dict[str, object] | bytes:
        message = await self.socket.recv()
        return json.loads(message) if isinstance(message, str) else message

    async def until(self, kind: str) -> list[dict[str, object] | bytes]:
        """All messages up to the first of that kind, which is the last of them."""
        found = [await self.next()]
        while isinstance(found[-1], bytes) or found[-1]["type"] != kind:
            found.append(await self.next())
        return found


@asynccontextmanager
async def session(server: Running, **config: object) -> AsyncGenerator[Session, None]:
    async with connect(server.socket_url) as socket:
        one = Session(socket)
        await one.send("session.config", **config)
        created = await one.next()
        assert isinstance(created, dict) and created["type"] == "session.created"
        yield one


def audio(messages: list[dict[str, object] | bytes]) -> bytes:
    return b"".join(message for message in messages if isinstance(message, bytes))


def expected(*texts: str) -> bytes:
    return b"".join(pcm16(tone(text, 0, frames_of(text))) for text in texts)


async def test_an_utterance_from_config_to_close(server: Running) -> None:
    async with connect(server.socket_url) as socket:
        one = Session(socket)
        await one.send("session.config", voice="alloy")
        created = await one.next()
        assert isinstance(created, dict)
        assert (created["voices"], created["sample_rate"]) == (["wren", "robin"], 24_000)
        await one.say(TEXT)
        start, *pieces, done = await one.until("audio.done")
        assert start == {
            "type": "audio.start", "utterance_index": 0, "format": "pcm", "sample_rate": 24_000, "channels": 1,
        }  # fmt: skip
        assert audio(pieces) == expected(*SENTENCES)
        frames = sum(map(frames_of, SENTENCES))
        assert done == {
            "type": "audio.done", "utterance_index": 0, "reason": "stop", "frames": frames, "audio_ms": 80 * frames,
        }  # fmt: skip
        await one.send("session.close")
        assert await one.next() == {"type": "session.done", "utterances": 1}
        with pytest.raises(ConnectionClosed):
            await one.next()
        assert socket.close_code == 1000


async def test_pieces_are_whole_codec_frames(server: Running) -> None:
    async with session(server) as one:
        await one.say(TEXT)
        pieces = [message for message in await one.until("audio.done") if isinstance(message, bytes)]
        assert [len(piece) % 3840 for piece in pieces] == [0] * len(pieces)


async def test_text_in_pieces_is_spoken_once_it_is_safe(server: Running) -> None:
    async with session(server) as one:
        for piece in ("It costs 22", ",", "1 euros", ".", "5 today"):
            await one.send("input.text", text=piece)
        await one.send("input.text", text=". And")
        start = await one.next()
        assert isinstance(start, dict) and start["type"] == "audio.start"
        await until(lambda: bool(server.speaker.pieces))
        assert server.speaker.pieces == ["It costs 22,1 euros.5 today. "]
        await one.send("input.done")
        await one.until("audio.done")
        assert server.speaker.pieces[1:] == ["And"]


async def test_sound_comes_before_the_text_has_ended(server: Running) -> None:
    async with session(server) as one:
        await one.send("input.text", text="One. Two")
        start, first = await one.next(), await one.next()
        assert isinstance(start, dict) and start["type"] == "audio.start"
        assert isinstance(first, bytes)


@pytest.mark.parametrize("pieces", [(), ("",), ("  \n", " ")])
async def test_a_blank_utterance_is_a_silent_one(server: Running, pieces: tuple[str, ...]) -> None:
    async with session(server) as one:
        await one.say(*pieces)
        assert await one.next() == {
            "type": "audio.done", "utterance_index": 0, "reason": "stop", "frames": 0, "audio_ms": 0,
        }  # fmt: skip
        assert server.speaker.asked == []
        await one.say("Still here.")
        assert audio(await one.until("audio.done")) == expected("Still here.")


async def test_utterances_follow_each_other(server: Running) -> None:
    async with session(server) as one:
        await one.say("First one.")
        await one.say("Second one.")
        first, second = await one.until("audio.done"), await one.until("audio.done")
        assert (audio(first), audio(second)) == (expected("First one."), expected("Second one."))
        assert [message["utterance_index"] for message in second if isinstance(message, dict)] == [1, 1]


async def test_the_config_may_change_between_utterances(server: Running) -> None:
    async with session(server, voice="wren") as one:
        await one.say("One.")
        await one.until("audio.done")
        await one.send("session.config", voice="robin", format="flac", seed=3)
        await one.say("Two.")
        start, first, *_ = await one.until("audio.done")
        assert isinstance(start, dict) and start["format"] == "flac"
        assert isinstance(first, bytes) and first.startswith(b"fLaC")
        assert [asked.speaker for asked in server.speaker.asked] == ["wren", "robin"]
        assert server.speaker.asked[1].seed == 3


async def test_cancel_before_the_first_sound_lets_none_through(server: Running) -> None:
    server.speaker.gate.clear()
    async with session(server) as one:
        await one.send("input.text", text=TEXT)
        await until(lambda: server.speaker.running == 1)
        await one.send("input.cancel")
        assert await one.next() == {
            "type": "audio.done", "utterance_index": 0, "reason": "cancelled", "frames": 0, "audio_ms": 0,
        }  # fmt: skip
        assert server.speaker.running == 0
        server.speaker.gate.set()
        await one.say("New.")
        messages = await one.until("audio.done")
        assert audio(messages) == expected("New.")
        assert isinstance(messages[0], dict) and messages[0]["utterance_index"] == 1


async def test_cancel_in_the_middle_stops_at_once(server: Running) -> None:
    server.speaker.gate.clear()
    server.speaker.free_chunks = 2
    async with session(server) as one:
        await one.say("a" * 200)
        messages = [await one.next() for _ in range(3)]
        await one.send("input.cancel", utterance_index=0)
        done = await one.next()
        assert done == {
            "type": "audio.done", "utterance_index": 0, "reason": "cancelled", "frames": 6, "audio_ms": 480,
        }  # fmt: skip
        assert len(audio(messages)) == 6 * 3840


async def test_cancel_reaches_what_waits_behind(server: Running) -> None:
    server.speaker.gate.clear()
    async with session(server) as one:
        await one.say("First.")
        await one.say("Second.")
        await one.send("input.cancel", utterance_index=1)
        await one.send("input.cancel", utterance_index=7)
        server.speaker.gate.set()
        first, second = await one.until("audio.done"), await one.until("audio.done")
        assert audio(first) == expected("First.")
        assert isinstance(second[0], dict) and (second[0]["utterance_index"], second[0]["reason"]) == (1, "cancelled")


async def test_a_thousand_cancels_leave_nothing(server: Running) -> None:
    async with session(server) as one:
        for number in range(1000):
            await one.send("input.text", text=TEXT)
            if number % 3:
                await asyncio.sleep(0)
            await one.send("input.cancel")
            messages = await one.until("audio.done")
            assert isinstance(messages[-1], dict) and messages[-1]["utterance_index"] == number
        assert server.speaker.running == 0
    text = (await server.http.get("/metrics")).text
    assert 'ouzel_requests_waiting{kind="tts"} 0\n' in text
    assert 'ouzel_requests_running{kind="tts"} 0\n' in text


async def test_timing_follows_its_piece(server: Running) -> None:
    async with session(server, timing=True) as one:
        await one.say("Hello there, all.")
        _, piece, timing, *_ = await one.until("audio.done")
        assert isinstance(piece, bytes) and isinstance(timing, dict)
        assert (timing["type"], timing["utterance_index"], timing["frame"]) == ("audio.timing", 0, 0)
        assert len(piece) == timing["frames"] * 3840  # type: ignore[operator]
        assert timing["phases_ms"].keys() == {"prefill", "backbone", "predictor", "hop", "codec", "encode", "send"}  # type: ignore[attr-defined]
        assert sum(timing["phases_ms"].values()) == pytest.approx(timing["used_ms"], abs=0.01)  # type: ignore[attr-defined]


async def test_a_fault_ends_its_utterance_and_not_the_session(server: Running) -> None:
    async with session(server) as one:
        server.speaker.fault = EngineError("the talker died")
        await one.say("First.")
        done = (await one.until("audio.done"))[-1]
        assert isinstance(done, dict)
        assert (done["reason"], done["error"]) == ("error", {"code": "server_error", "message": "the talker died"})
        server.speaker.fault, server.speaker.refusal = None, BusyError("full")
        await one.say("Second.")
        done = (await one.until("audio.done"))[-1]
        assert isinstance(done, dict) and done["error"] == {"code": "rate_limit_error", "message": "full"}
        server.speaker.refusal = None
        await one.say("Third.")
        assert audio(await one.until("audio.done")) == expected("Third.")


async def test_reaching_the_frame_limit_is_said(server: Running) -> None:
    server.speaker.reason = FinishReason.LENGTH
    async with session(server) as one:
        await one.say("On and on.")
        done = (await one.until("audio.done"))[-1]
        assert isinstance(done, dict) and done["reason"] == "length"


async def test_a_message_that_is_not_understood_leaves_the_session(server: Running) -> None:
    async with session(server) as one:
        for message in (b"\x00\x01", "no json", '{"type":"input.text"}', '{"type":"session.config","voice":"nobody"}'):
            await one.socket.send(message)
            error = await one.next()
            assert isinstance(error, dict) and (error["type"], error["code"]) == ("error", "invalid_request_error")
        await one.send("session.config", respond=True)
        error = await one.next()
        assert isinstance(error, dict) and error["param"] == "respond"
        await one.say("Still here.")
        assert audio(await one.until("audio.done")) == expected("Still here.")


@pytest.mark.parametrize("text", ["a" * 31, "\ud800"])
async def test_a_text_that_cannot_be_spoken_ends_with_its_error(text: str) -> None:
    async with running(with_limits(max_text_letters=30)) as server, session(server) as one:
        await one.send("input.text", text=text)
        await one.send("input.text", text="dropped")
        await one.send("input.done")
        done = await one.next()
        assert isinstance(done, dict) and done["reason"] == "error"
        assert isinstance(done["error"], dict) and done["error"]["param"] == "text"
        await one.say("Fine.")
        assert audio(await one.until("audio.done")) == expected("Fine.")


async def test_so_many_utterances_may_wait(server: Running) -> None:
    server.speaker.gate.clear()
    async with session(server) as one:
        for number in range(9):
            await one.say(f"Number {number}.")
        refused = await one.next()
        assert isinstance(refused, dict) and (refused["utterance_index"], refused["reason"]) == (8, "error")
        server.speaker.gate.set()
        ends = [(await one.until("audio.done"))[-1] for _ in range(8)]
        assert [end["utterance_index"] for end in ends if isinstance(end, dict)] == [*range(8)]


async def test_closing_says_what_is_left_first(server: Running) -> None:
    async with session(server) as one:
        await one.send("input.text", text="No end")
        await one.send("session.close")
        messages = await one.until("session.done")
        assert audio(messages) == expected("No end")


@pytest.mark.parametrize("free_chunks", [0, 1])
async def test_a_client_that_leaves_frees_its_slot(server: Running, free_chunks: int) -> None:
    server.speaker.gate.clear()
    server.speaker.free_chunks = free_chunks
    async with session(server) as one:
        await one.say("a" * 100)
        await until(lambda: server.speaker.running == 1)
        one.socket.transport.abort()
        await until(lambda: server.speaker.running == 0)


async def test_a_slow_client_makes_its_own_talker_wait_and_is_dropped_in_the_end() -> None:
    config = with_limits(max_text_letters=200_000)
    config = type(config)(limits=config.limits, gateway=with_gateway(send_deadline_s=0.3).gateway)
    async with running(config) as server:
        async with connect(server.socket_url, max_queue=1) as socket:
            slow = Session(socket)
            await slow.send("session.config")
            await slow.say("a" * 20_000)  # 10,000 frames, 38 MB
            async with session(server) as other:
                await other.say("Quick.")
                assert audio(await other.until("audio.done")) == expected("Quick.")
            await until(lambda: server.speaker.running == 0)
            assert server.speaker.frames_made < 5000
            socket.transport.abort()


async def test_a_silent_client_is_closed_after_a_while() -> None:
    async with running(with_gateway(idle_s=0.1)) as server, session(server) as one:
        error = await one.next()
        assert isinstance(error, dict) and "nothing happened for 0.1 s" in str(error["message"])
        with pytest.raises(ConnectionClosed):
            await one.next()
        assert one.socket.close_code == 1001


async def test_a_client_that_waits_for_its_turn_is_not_silent() -> None:
    async with running(with_gateway(idle_s=0.1)) as server, session(server) as one:
        server.speaker.gate.clear()
        await one.say("Later.")
        await asyncio.sleep(0.3)
        server.speaker.gate.set()
        assert audio(await one.until("audio.done")) == expected("Later.")


async def test_a_subprotocol_that_is_offered_is_confirmed(server: Running) -> None:
    async with connect(server.socket_url, subprotocols=["realtime", "other"]) as socket:  # type: ignore[list-item]
        assert socket.subprotocol == "realtime"


async def test_samples_are_not_compressed(server: Running) -> None:
    async with connect(server.socket_url) as socket:
        assert socket.protocol.extensions == []


async def test_a_message_may_not_be_too_large(server: Running) -> None:
    async with session(server) as one:
        await one.send("input.text", text="a" * (1 << 20))
        with pytest.raises(ConnectionClosed):
            await one.until("never")
        assert one.socket.close_code == 1009


async def test_while_loading_a_socket_is_refused(server: Running) -> None:
    server.speaker.state = Health(State.LOADING, "weights 1/3")
    with pytest.raises(InvalidStatus) as caught:
        await connect(server.socket_url)
    assert caught.value.response.status_code == 503
    assert json.loads(caught.value.response.body)["error"]["message"] == "loading: weights 1/3"


async def test_the_command_of_another_maker_speaks(server: Running) -> None:
    """`python -m websockets`: a line typed is a message sent."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "websockets", server.socket_url,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    typed = ['{"type":"session.config"}', '{"type":"input.text","text":"Hello."}', '{"type":"input.done"}']
    process.stdin.write("\n".join([*typed, ""]).encode())
    shown = b""
    while b"audio.done" not in shown:
        shown += await process.stdout.read(1 << 16)
    assert b"session.created" in shown
    process.kill()
    await process.wait()


async def test_the_event_loop_encodes_nothing(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()

    def encode(chain: AudioChain, samples: np.ndarray) -> bytes:
        threads.add(threading.current_thread())
        return pcm16(samples)

    monkeypatch.setattr(AudioChain, "encode", encode)
    async with session(server) as one:
        await one.say(TEXT)
        await one.until("audio.done")
    assert threads and threading.main_thread() not in threads
