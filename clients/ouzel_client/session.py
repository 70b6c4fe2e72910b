"""A session of speech over the server's WebSocket: texts that are said, and questions that are answered aloud."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from ouzel_client.errors import ClientError, ServerError, UnreachableError

__all__ = ["Answered", "Audio", "Done", "Event", "Session", "Started", "Timing", "Writing", "connect", "socket_url"]

PATH = "/v1/audio/speech/stream"


@dataclass(frozen=True, slots=True)
class Started:
    """The first audio is about to come."""

    format: str
    sample_rate: int


@dataclass(frozen=True, slots=True)
class Audio:
    """A piece of audio, in the session's format; PCM is 16-bit mono in whole codec frames."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Timing:
    """Where the milliseconds of the piece before it went; the server's own object."""

    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """The end: `stop`, `length` (cut off at its frame limit) or `cancelled`."""

    reason: str
    frames: int
    audio_ms: float


@dataclass(frozen=True, slots=True)
class Writing:
    """A piece of the answer as the language model writes it."""

    text: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The whole answer is written; audio of it may still come."""

    text: str
    #: as chat completions count: prompt_tokens, completion_tokens, total_tokens …
    usage: dict[str, Any]


Event = Started | Audio | Timing | Writing | Answered | Done


def socket_url(url: str) -> str:
    """The WebSocket's address for that of a server, or itself."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") or PATH, parts.query, ""))


@asynccontextmanager
async def connect(url: str, *, api_key: str | None = None, **config: Any) -> AsyncIterator[Session]:
    """Open a session.

    :param url: of the server, as http:// or ws://
    :param config: voice, language, format, sample_rate, speed, seed, timing, and for answers system, temperature,
        max_tokens …; None leaves it to the server
    :raises UnreachableError: when nobody answers there, or the connection breaks
    :raises ServerError: when the server refuses the key or the config, or isn't ready
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        # Samples don't compress, and our own messages may be large.
        opening = open_socket(socket_url(url), additional_headers=headers, compression=None, max_size=None)
        async with opening as socket:
            session = Session(socket)
            await session.configure(**config)
            yield session
    except InvalidStatus as error:
        raise _refusal(error) from None
    except (InvalidURI, InvalidHandshake) as error:
        raise UnreachableError(f"{url} is no speech server: {error}") from error
    except ConnectionClosed as error:
        raise UnreachableError(f"the server ended the connection: {error}") from error
    except OSError as error:
        raise UnreachableError(f"nobody answers at {url}: {error.strerror or error}") from error


def _refusal(error: InvalidStatus) -> ClientError:
    try:
        return ServerError.of(json.loads(error.response.body)["error"])
    except (ValueError, KeyError, TypeError):
        return UnreachableError(f"the server answered with HTTP status {error.response.status_code}")


class Session:
    """One connection; it says one text, or answers one question, after the other."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._config: dict[str, Any] = {}
        #: the server's count of utterances: the one that the next text belongs to
        self._next = 0
        self._writing = False
        self.voices: tuple[str, ...] = ()
        self.sample_rate = 0

    async def configure(self, **config: Any) -> None:
        """Change how the texts from now on sound.

        :raises ServerError: when the server doesn't take it
        """
        first = not self.voices and not self.sample_rate
        self._config = {name: value for name, value in config.items() if value is not None}
        await self._send("session.config", **self._config)
        if first:
            created = await self._receive()
            if isinstance(created, bytes) or created["type"] != "session.created":
                raise ServerError("the server began with something else than a session", "server_error")
            self.voices, self.sample_rate = tuple(created["voices"]), created["sample_rate"]

    async def speak(self, text: str | AsyncIterable[str]) -> AsyncGenerator[Event, None]:
        """Say a text, whole or in pieces as they come. Closing the generator cancels.

        :raises ServerError: what ended it, after the audio that there was
        :raises Exception: what `text` raised; then it is cancelled
        """
        async with aclosing(self._utter(text, respond=False)) as events:
            async for event in events:
                yield event

    async def ask(self, question: str | AsyncIterable[str]) -> AsyncGenerator[Event, None]:
        """Have the server's language model answer, in text and aloud; it knows what was said before in this session.

        Closing the generator cancels.

        :raises ServerError: what ended it, after what there was; at once where the server has no language model
        :raises Exception: what `question` raised; then it is cancelled
        """
        async with aclosing(self._utter(question, respond=True)) as events:
            async for event in events:
                yield event

    async def _utter(self, text: str | AsyncIterable[str], *, respond: bool) -> AsyncGenerator[Event, None]:
        if respond != self._config.get("respond", False):
            await self.configure(**self._config | {"respond": respond})
        number = self._next
        feeding = asyncio.ensure_future(self._feed(text))
        ended = False
        try:
            async for event in self._events(number, feeding):
                ended = isinstance(event, Done)
                yield event
        except ServerError:
            self._config["respond"] = None  # which config holds now isn't known: it is sent again
            raise
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            if not ended:
                await self._cancel(number)

    async def _events(self, number: int, feeding: asyncio.Future[None]) -> AsyncGenerator[Event, None]:
        ours = False  # whether the audio that comes is of this text, and not of one that was cancelled
        while True:
            message = await self._receive_beside(feeding)
            if isinstance(message, bytes):
                if ours:
                    yield Audio(message)
                continue
            if message.get("utterance_index", number) != number:
                continue
            match message["type"]:
                case "audio.start":
                    ours = True
                    yield Started(message["format"], message["sample_rate"])
                case "audio.timing":
                    yield Timing(message)
                case "text.delta":
                    yield Writing(message["text"])
                case "text.done":
                    yield Answered(message["text"], message["usage"])
                case "audio.done":
                    if message["reason"] == "error":
                        raise ServerError.of(message["error"])
                    yield Done(message["reason"], message["frames"], message["audio_ms"])
                    return

    async def _receive_beside(self, feeding: asyncio.Future[None]) -> dict[str, Any] | bytes:
        """The next message; what goes wrong with the text meanwhile counts first."""
        if feeding.done():
            feeding.result()
            return await self._receive()
        receiving = asyncio.ensure_future(self._receive())
        try:
            both: set[asyncio.Future[Any]] = {receiving, feeding}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if feeding.done():
                feeding.result()
            return await receiving
        finally:
            receiving.cancel()

    async def _feed(self, text: str | AsyncIterable[str]) -> None:
        self._writing = True
        if isinstance(text, str):
            await self._send("input.text", text=text)
        else:
            async for piece in text:
                if piece:
                    await self._send("input.text", text=piece)
        await self._send("input.done")
        self._writing = False
        self._next += 1

    async def _cancel(self, number: int) -> None:
        try:
            if self._writing:
                # Whether any of it has arrived is not known here: an end makes sure that there is something to end.
                await self._send("input.done")
                self._writing = False
                self._next += 1
            await self._send("input.cancel", utterance_index=number)
        except ConnectionClosed:
            return

    async def _send(self, kind: str, **fields: object) -> None:
        await self._socket.send(json.dumps({"type": kind, **fields}))

    async def _receive(self) -> dict[str, Any] | bytes:
        message = await self._socket.recv()
        if isinstance(message, bytes):
            return message
        fields: dict[str, Any] = json.loads(message)
        if fields["type"] == "error":
            raise ServerError.of(fields | {"type": fields.get("code", "error")})
        return fields
