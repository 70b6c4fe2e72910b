"""The messages of our WebSocket, without a socket: texts in, commands out; events in, messages out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ouzel.errors import OuzelError, RequestError
from ouzel.gateway.forms import usage_fields
from ouzel.gateway.replies import error_code
from ouzel.gateway.timing import Timing
from ouzel.gateway.wishes import SessionConfig, parse_fields, parse_json
from ouzel.stages.core import FinishReason
from ouzel.stages.language import Usage

__all__ = [
    "AudioDone",
    "AudioPiece",
    "AudioStart",
    "Cancel",
    "Close",
    "Command",
    "Configure",
    "EndOfText",
    "Event",
    "Fault",
    "Message",
    "NativeDialect",
    "PieceTiming",
    "SessionCreated",
    "SessionDone",
    "Text",
    "TextDone",
    "TextPiece",
]

Message = str | bytes


@dataclass(frozen=True, slots=True)
class Configure:
    """How the utterances from now on are to sound."""

    config: SessionConfig


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of an utterance's text; the first begins it."""

    utterance: int
    text: str


@dataclass(frozen=True, slots=True)
class EndOfText:
    """An utterance has no more text."""

    utterance: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop one utterance, or every one that hasn't ended."""

    utterance: int | None


@dataclass(frozen=True, slots=True)
class Close:
    """Say what is left, then close."""


Command = Configure | Text | EndOfText | Cancel | Close


@dataclass(frozen=True, slots=True)
class SessionCreated:
    session_id: str
    voices: Sequence[str]
    sample_rate: int


@dataclass(frozen=True, slots=True)
class AudioStart:
    utterance: int
    format: str
    sample_rate: int


@dataclass(frozen=True, slots=True)
class AudioPiece:
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioDone:
    utterance: int
    reason: FinishReason
    frames: int
    audio_ms: float
    error: OuzelError | None = None


@dataclass(frozen=True, slots=True)
class PieceTiming:
    utterance: int
    timing: Timing


@dataclass(frozen=True, slots=True)
class TextPiece:
    """More of the answer."""

    utterance: int
    text: str


@dataclass(frozen=True, slots=True)
class TextDone:
    """The answer is written to its end."""

    utterance: int
    text: str
    reason: FinishReason
    usage: Usage


@dataclass(frozen=True, slots=True)
class SessionDone:
    utterances: int


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is no utterance's: a message that wasn't understood."""

    error: OuzelError


Event = SessionCreated | AudioStart | AudioPiece | AudioDone | PieceTiming | TextPiece | TextDone | SessionDone | Fault


_MESSAGES = ("session.config", "input.text", "input.done", "input.cancel", "session.close")


class NativeDialect:
    """One session's side of the protocol: it knows which message may come when."""

    def __init__(self) -> None:
        self._configured = False
        #: the utterance whose text is coming, or would begin with the next piece
        self._utterance = 0
        self._writing = False
        self._closing = False

    def receive(self, message: Message) -> Command:
        """What a message asks for.

        :raises RequestError: when it isn't understood, or may not come now; the session goes on
        """
        if isinstance(message, bytes):
            raise RequestError("message: text was expected, and a binary message came")
        fields = parse_json(message, "message")
        kind = fields.pop("type", None)
        if kind not in _MESSAGES:
            raise RequestError(f"type: {kind!r} is no message; valid are {', '.join(_MESSAGES)}", param="type")
        if self._closing and kind != "input.cancel":
            raise RequestError(f"type: {kind} came after session.close", param="type")
        if kind == "session.config":
            return self._configure(fields)
        if kind == "session.close":
            self._closing = True
            return Close()
        if not self._configured:
            raise RequestError(f"type: {kind} came before session.config", param="type")
        if kind == "input.cancel":
            return self._cancel(fields)
        return self._text(fields) if kind == "input.text" else self._end_of_text()

    def send(self, event: Event) -> Message:
        """An event as it goes over the wire."""
        if isinstance(event, AudioPiece):
            return event.data
        return json.dumps(_content(event), separators=(",", ":"))

    def _configure(self, fields: Mapping[str, Any]) -> Configure:
        if self._writing:
            raise RequestError("type: session.config may not come inside an utterance; end it first", param="type")
        command = Configure(parse_fields(SessionConfig, fields))
        self._configured = True
        return command

    def _text(self, fields: Mapping[str, Any]) -> Text:
        text = fields.get("text")
        if not isinstance(text, str):
            raise RequestError(f"text: a string is needed, not {type(text).__name__}", param="text")
        self._writing = True
        return Text(self._utterance, text)

    def _end_of_text(self) -> EndOfText:
        # Without a text before it, it is an utterance all the same: a silent one. Pipelines do send blanks.
        ended = self._utterance
        self._utterance += 1
        self._writing = False
        return EndOfText(ended)

    def _cancel(self, fields: Mapping[str, Any]) -> Cancel:
        which = fields.get("utterance_index")
        if which is not None and (type(which) is not int or which < 0):
            raise RequestError(f"utterance_index: {which!r}; a whole number from 0 is needed", param="utterance_index")
        if self._writing and which in (None, self._utterance):
            self._utterance += 1
            self._writing = False
        return Cancel(which)


def _content(event: Event) -> dict[str, object]:
    match event:
        case SessionCreated(session_id, voices, rate):
            return {"type": "session.created", "session_id": session_id, "voices": [*voices], "sample_rate": rate}
        case AudioStart(utterance, name, rate):
            start = {"type": "audio.start", "utterance_index": utterance, "format": name}
            return start | {"sample_rate": rate, "channels": 1}
        case PieceTiming(utterance, timing):
            return {"type": "audio.timing", "utterance_index": utterance} | timing.to_json()
        case AudioDone():
            return _done(event)
        case TextPiece(utterance, text):
            return {"type": "text.delta", "utterance_index": utterance, "text": text}
        case TextDone(utterance, text, reason, usage):
            done = {"type": "text.done", "utterance_index": utterance, "text": text, "reason": reason.value}
            return done | {"usage": usage_fields(usage)}
        case SessionDone(utterances):
            return {"type": "session.done", "utterances": utterances}
        case Fault(error):
            return {"type": "error", **_error(error)}
    raise TypeError(f"{type(event).__name__} is no text message")


def _done(event: AudioDone) -> dict[str, object]:
    done: dict[str, object] = {
        "type": "audio.done",
        "utterance_index": event.utterance,
        "reason": event.reason.value,
        "frames": event.frames,
        "audio_ms": round(event.audio_ms, 3),
    }
    return done | {"error": _error(event.error)} if event.error else done


def _error(error: OuzelError) -> dict[str, object]:
    found: dict[str, object] = {"code": error_code(error), "message": str(error)}
    return found | {"param": error.param} if error.param else found
