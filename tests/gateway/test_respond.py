"""`respond: true` over the WebSocket: a question goes in, an answer comes out in text and sound."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import pytest_asyncio
from fake_language import MODEL, PROMPT_TOKENS, TEXT, FakeLanguage, said, script
from fake_speaker import frames_of, tone
from running import Running, running, until, with_gateway, with_limits
from websockets.asyncio.client import ClientConnection, connect

from ouzel.audio.wav import pcm16
from ouzel.errors import BusyError, EngineError, RequestError
from ouzel.orchestrator.language import LanguageState
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageFacts, LanguageRequest, TextDelta

pytestmark = pytest.mark.asyncio(loop_scope="module")

Message = dict[str, object] | bytes
QUESTION = "What is the capital of France?"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _answering() -> AsyncGenerator[Running, None]:
    async with running(language=FakeLanguage()) as found:
        yield found


@pytest.fixture
def server(_answering: Running) -> Running:
    """A server with a language model, both as new."""
    _answering.speaker.reset()
    _answering.language.reset()
    return _answering


class Client:
    """A client of another maker."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, kind: str, **fields: object) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def ask(self, *pieces: str) -> None:
        for piece in pieces or (QUESTION,):
            await self.send("input.text", text=piece)
        await self.send("input.done")

    async def next(self) -> Message:
        message = await self.socket.recv()
        return json.loads(message) if isinstance(message, str) else message

    async def until(self, kind: str) -> list[Message]:
        found = [await self.next()]
        while isinstance(found[-1], bytes) or found[-1]["type"] != kind:
            found.append(await self.next())
        return found


@asynccontextmanager
async def asking(server: Running, **config: object) -> AsyncGenerator[Client, None]:
    async with connect(server.socket_url) as socket:
        client = Client(socket)
        await client.send("session.config", respond=True, **config)
        created = await client.next()
        assert isinstance(created, dict) and created["type"] == "session.created", created
        yield client


def kinds(messages: list[Message]) -> list[object]:
    return ["audio" if isinstance(message, bytes) else message["type"] for message in messages]


def audio(messages: list[Message]) -> bytes:
    return b"".join(message for message in messages if isinstance(message, bytes))


def text(messages: list[Message]) -> str:
    return "".join(str(m["text"]) for m in messages if isinstance(m, dict) and m["type"] == "text.delta")


def words(*pieces: str) -> Iterator[TextDelta]:
    for piece in pieces:
        yield said(piece, finish=FinishReason.STOP if piece is pieces[-1] else None)


async def test_a_question_is_answered_in_text_and_sound(server: Running) -> None:
    async with asking(server, voice="robin", seed=7, temperature=0.5, max_tokens=50) as client:
        await client.ask("What is the ", "capital of France?")
        messages = await client.until("audio.done")
    asked = server.language.asked[0]
    assert asked.messages == ({"role": "user", "content": QUESTION},)
    assert (asked.sampling.seed, asked.sampling.temperature, asked.sampling.max_tokens) == (7, 0.5, 50)
    assert text(messages) == TEXT
    done = next(m for m in messages if isinstance(m, dict) and m["type"] == "text.done")
    assert (done["utterance_index"], done["text"], done["reason"]) == (0, TEXT, "stop")
    assert isinstance(done["usage"], dict) and done["usage"]["prompt_tokens"] == PROMPT_TOKENS
    assert "".join(server.speaker.pieces) == TEXT
    assert audio(messages) == b"".join(pcm16(tone(one, 0, frames_of(one), 7)) for one in server.speaker.pieces)
    assert kinds(messages).count("audio.start") == kinds(messages).count("text.done") == 1
    end = messages[-1]
    assert isinstance(end, dict) and (end["reason"], end["frames"]) == ("stop", len(audio(messages)) // 3840)
    assert [(one.speaker, one.along) for one in server.speaker.asked] == [("robin", True)]


async def test_sound_comes_before_the_model_has_written_its_last_word(server: Running) -> None:
    server.language.script = script(*words("It is Paris. ", "More ", "follows."))
    server.language.free_deltas = 2
    server.language.gate.clear()
    async with asking(server) as client:
        await client.ask()
        messages = await client.until("audio.start")
        messages.append(await client.next())
        assert isinstance(messages[-1], bytes)
        # The model stands still, and has not written its last word.
        assert server.language.deltas_made == 2 and "text.done" not in kinds(messages)
        server.language.gate.set()
        messages += await client.until("audio.done")
    assert text(messages) == "It is Paris. More follows."
    assert "".join(server.speaker.pieces) == "It is Paris. More follows."


async def test_markdown_is_written_as_it_is_and_said_as_words(server: Running) -> None:
    written = "# Answer\n\n1. **Par", "is** 🎉\n2. See [it](http://x.org)\n```\nx\n```\n"
    server.language.script = script(*words(*written))
    async with asking(server) as client:
        await client.ask()
        messages = await client.until("audio.done")
    assert text(messages) == "".join(written)
    assert "".join(server.speaker.pieces) == "Answer.\n\n1. Paris .\n\n2. See it.\n\nCode example.".replace(
        "Paris .", "Paris "
    )


async def test_thoughts_are_neither_written_nor_said(server: Running) -> None:
    server.language.script = script(said(reasoning="Hmm, a question. "), *words("Paris", "."))
    async with asking(server) as client:
        await client.ask()
        messages = await client.until("audio.done")
    assert text(messages) == "Paris." and "".join(server.speaker.pieces) == "Paris."


@pytest.mark.parametrize("answer", ["🙂", "", "---\n"])
async def test_an_answer_without_words_is_a_silent_one(server: Running, answer: str) -> None:
    server.language.script = script(*words(answer))
    async with asking(server) as client:
        await client.ask()
        messages = await client.until("audio.done")
        end = messages[-1]
        assert isinstance(end, dict) and (end["reason"], end["frames"]) == ("stop", 0)
        assert server.speaker.asked == []


async def test_a_blank_question_asks_nothing(server: Running) -> None:
    async with asking(server) as client:
        await client.ask("  \n")
        assert kinds(await client.until("audio.done")) == ["audio.done"]
    assert server.language.asked == []


async def test_the_conversation_goes_on(server: Running) -> None:
    async with asking(server, system="Be short.") as client:
        await client.ask("First?")
        await client.until("audio.done")
        await client.ask("Second?")
        await client.until("audio.done")
        assert server.language.asked[1].messages == (
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "First?"},
            {"role": "assistant", "content": TEXT},
            {"role": "user", "content": "Second?"},
        )
        # A text that is only said is no part of it.
        await client.send("session.config")
        await client.ask("Said.")
        await client.until("audio.done")
        assert server.speaker.pieces[-1] == "Said." and len(server.language.asked) == 2


@pytest.mark.parametrize(("context", "most"), [(8192, 1024), (600, 150)])
async def test_an_answer_has_a_limit_where_the_client_gives_none(server: Running, context: int, most: int) -> None:
    server.language.now = replace(server.language.now, facts=LanguageFacts(model=MODEL, context=context))
    async with asking(server) as client:
        await client.ask(QUESTION)
        await client.until("audio.done")
    assert server.language.asked[0].sampling.max_tokens == most


async def test_what_the_context_has_no_room_for_is_forgotten(server: Running) -> None:
    assert server.language.now.facts is not None
    server.language.now = replace(server.language.now, facts=replace(server.language.now.facts, context=100))
    async with asking(server) as client:
        for _ in range(3):
            await client.ask("a" * 50)
            await client.until("audio.done")
    assert [len(asked.messages or ()) for asked in server.language.asked] == [1, 3, 3]


@pytest.mark.parametrize("context", [None, 0])
async def test_where_the_context_is_not_known_the_session_remembers_too(server: Running, context: int | None) -> None:
    facts = LanguageFacts(model=MODEL, context=0)
    server.language.now = replace(server.language.now, facts=None if context is None else facts)
    async with asking(server) as client:
        for _ in range(2):
            await client.ask()
            await client.until("audio.done")
    assert [len(asked.messages or ()) for asked in server.language.asked] == [1, 3]


async def test_cancel_stops_writing_and_speaking(server: Running) -> None:
    server.language.script = script(*words("It is Paris. ", "More ", "follows."))
    server.language.free_deltas = 2
    server.language.gate.clear()
    async with asking(server) as client:
        await client.ask()
        await client.until("audio.start")
        await client.send("input.cancel")
        end = (await client.until("audio.done"))[-1]
        assert isinstance(end, dict) and end["reason"] == "cancelled"
        assert (server.language.running, server.speaker.running) == (0, 0)
        server.language.gate.set()
        await client.ask("And now?")
        messages = await client.until("audio.done")
        assert {m["utterance_index"] for m in messages if isinstance(m, dict)} == {1}
        # What had come of the answer is remembered.
        assert server.language.asked[1].messages is not None
        assert server.language.asked[1].messages[1] == {"role": "assistant", "content": "It is Paris. More "}


async def test_cancel_before_the_first_word_leaves_nothing(server: Running) -> None:
    server.language.gate.clear()
    async with asking(server) as client:
        await client.ask()
        await until(lambda: server.language.running == 1)
        await client.send("input.cancel", utterance_index=0)
        assert kinds(await client.until("audio.done")) == ["audio.done"]
        assert server.language.running == 0
        server.language.gate.set()
        await client.ask("Again?")
        await client.until("audio.done")
        assert server.language.asked[1].messages == ({"role": "user", "content": "Again?"},)


async def test_a_question_may_be_cancelled_while_it_is_asked(server: Running) -> None:
    async with asking(server) as client:
        await client.send("input.text", text="What is")
        await client.send("input.cancel")
        assert kinds(await client.until("audio.done")) == ["audio.done"]
    assert server.language.asked == []


@pytest.mark.parametrize(
    ("fault", "code"),
    [(EngineError("the model died"), "server_error"), (BusyError("full"), "rate_limit_error"),
     (RequestError("messages: too long"), "invalid_request_error")],
)  # fmt: skip
@pytest.mark.parametrize("after", [0, 3])
async def test_a_fault_of_the_model_ends_the_answer_alone(
    server: Running, fault: EngineError, code: str, after: int
) -> None:
    server.language.fault = (after, fault)
    async with asking(server) as client:
        await client.ask()
        messages = await client.until("audio.done")
        end = messages[-1]
        assert isinstance(end, dict) and end["reason"] == "error"
        assert isinstance(end["error"], dict) and (end["error"]["code"], end["error"]["message"]) == (code, str(fault))
        assert "text.done" not in kinds(messages) and server.speaker.running == 0
        server.language.fault = None
        await client.ask()
        assert text(await client.until("audio.done")) == TEXT


async def test_a_fault_of_the_voice_ends_the_answer_alone(server: Running) -> None:
    server.language.script = script(*words("It is Paris. ", "More ", "follows."))
    server.language.free_deltas = 2
    server.language.gate.clear()
    server.speaker.fault = EngineError("the talker died")
    async with asking(server) as client:
        await client.ask()
        end = (await client.until("audio.done"))[-1]
        assert isinstance(end, dict) and (end["reason"], server.language.running) == ("error", 0)
        server.speaker.fault = None
        server.language.gate.set()
        await client.ask()
        end = (await client.until("audio.done"))[-1]
        assert isinstance(end, dict) and end["reason"] == "stop"


async def test_reaching_its_token_limit_is_said(server: Running) -> None:
    async with asking(server, max_tokens=2) as client:
        await client.ask()
        messages = await client.until("audio.done")
    done = next(m for m in messages if isinstance(m, dict) and m["type"] == "text.done")
    assert (done["text"], done["reason"]) == ("Paris is", "length")
    end = messages[-1]
    assert isinstance(end, dict) and end["reason"] == "stop"


async def test_an_answer_that_is_too_long_to_say_is_written_whole() -> None:
    async with running(with_limits(max_text_letters=60), language=FakeLanguage()) as server:
        server.language.script = script(*words(*["word "] * 30))
        server.language.free_deltas = 20
        server.language.gate.clear()
        async with asking(server) as client:
            await client.ask()
            # What is spoken ends, though the model goes on.
            await until(lambda: bool(server.speaker.pieces) and server.speaker.running == 0)
            assert server.language.running == 1
            server.language.gate.set()
            messages = await client.until("audio.done")
        assert text(messages) == "word " * 30
        assert "".join(server.speaker.pieces) == "word " * 12
        end = messages[-1]
        assert isinstance(end, dict) and end["reason"] == "length"


async def test_a_model_that_is_slow_is_no_silent_client() -> None:
    async with running(with_gateway(idle_s=0.1), language=FakeLanguage()) as server:
        server.language.gate.clear()
        async with asking(server) as client:
            await client.ask()
            await asyncio.sleep(0.3)
            server.language.gate.set()
            assert text(await client.until("audio.done")) == TEXT


async def test_a_model_that_cannot_serve_is_said_at_once(server: Running) -> None:
    server.language.now = replace(server.language.now, state=LanguageState.FAILED, reason="model: no such folder")
    async with connect(server.socket_url) as socket:
        client = Client(socket)
        await client.send("session.config", respond=True)
        error = await client.next()
        assert isinstance(error, dict) and error["code"] == "unavailable_error"
        assert error["message"] == "the language model is failed: model: no such folder"
        # Speech needs none.
        await client.send("session.config")
        await client.ask("Still here.")
        await client.until("audio.done")
        assert server.speaker.pieces == ["Still here."]


async def test_a_client_that_leaves_stops_the_model(server: Running) -> None:
    server.language.gate.clear()
    async with asking(server) as client:
        await client.ask()
        await until(lambda: server.language.running == 1)
        client.socket.transport.abort()
        await until(lambda: server.language.running == 0)


async def test_waiting_for_text_is_counted_apart_from_a_slow_voice(server: Running) -> None:
    def gaps(page: str) -> dict[str, float]:
        lines = [line for line in page.splitlines() if line.startswith("ouzel_tts_gap_seconds_total{")]
        return {line.split('"')[1]: float(line.split()[-1]) for line in lines}

    before = gaps((await server.http.get("/metrics")).text)
    server.language.script = script(*words("One. ", "Two."))
    server.language.free_deltas = 1
    server.language.gate.clear()
    server.speaker.starved_ns = 10**12
    async with asking(server, timing=True) as client:
        await client.ask()
        await client.until("audio.timing")
        await asyncio.sleep(0.3)  # longer than the sound that came: a listener's clock runs
        server.language.gate.set()
        timings = [m for m in await client.until("audio.done") if isinstance(m, dict) and m["type"] == "audio.timing"]
    assert timings[0]["gap_ms"] > 0 and timings[0]["starved_ms"] == 10**6  # type: ignore[operator]
    after = gaps((await server.http.get("/metrics")).text)
    assert after["text"] > before.get("text", 0) and after.get("voice", 0) == before.get("voice", 0)


async def test_many_cancels_leave_nothing(server: Running) -> None:
    async with asking(server) as client:
        for number in range(300):
            await client.ask()
            if number % 3:
                await asyncio.sleep(0)
            await client.send("input.cancel", utterance_index=number)
            end = (await client.until("audio.done"))[-1]
            assert isinstance(end, dict) and end["utterance_index"] == number
    assert (server.language.running, server.speaker.running) == (0, 0)
    page = (await server.http.get("/metrics")).text
    for kind in ("tts", "llm"):
        assert f'ouzel_requests_waiting{{kind="{kind}"}} 0\n' in page
        assert f'ouzel_requests_running{{kind="{kind}"}} 0\n' in page


async def test_several_questions_wait_for_each_other(server: Running) -> None:
    def echoed(request: LanguageRequest) -> Iterator[TextDelta]:
        assert request.messages is not None
        yield from words("You said ", f"{request.messages[-1]['content']}.")

    server.language.script = echoed
    async with asking(server) as client:
        await client.ask("one")
        await client.ask("two")
        first, second = await client.until("audio.done"), await client.until("audio.done")
    assert (text(first), text(second)) == ("You said one.", "You said two.")
