"""What the server and a stage say to each other: a closed set of messages, and their bytes.

A message is a JSON array of its name and its fields, typed by the dataclass on both sides: nothing that arrives can
name a type of its own. Audio and codes never come this way; text does.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import Any, Literal

import ouzel.errors
from ouzel.errors import EngineError, OuzelError
from ouzel.stages.core import Grant, TalkerRequest, TextPiece
from ouzel.stages.language import LanguageFacts, LanguageRequest, TextDelta
from ouzel.stats.timeline import Span

__all__ = [
    "Abort",
    "AskStats",
    "Attach",
    "Beat",
    "Credit",
    "Failed",
    "Fault",
    "FromStage",
    "Generate",
    "Generated",
    "Message",
    "Progress",
    "Ready",
    "Refused",
    "ResetStats",
    "Setup",
    "Speak",
    "StageRole",
    "StatsReply",
    "Stop",
    "Text",
    "ToStage",
    "decode",
    "encode",
]


class StageRole(StrEnum):
    """What a stage computes."""

    TALKER = "talker"
    CODE2WAV = "code2wav"
    #: Both in one process, in turns.
    SPEECH = "speech"
    #: Text; no link of the chain that speaks.
    LLM = "llm"


@dataclass(frozen=True, slots=True)
class Fault:
    """An error of the tree as it crosses between processes."""

    kind: str
    message: str
    param: str | None = None

    @classmethod
    def of(cls, error: OuzelError) -> Fault:
        return cls(type(error).__name__, str(error), error.param)

    def error(self) -> OuzelError:
        """The error again.

        :raises EngineError: when `kind` is none of the tree.
        """
        if self.kind not in ouzel.errors.__all__:
            raise EngineError(f"a stage reported a fault of the unknown kind {self.kind!r}: {self.message}")
        kind: type[OuzelError] = getattr(ouzel.errors, self.kind)
        return kind(self.message, param=self.param)


@dataclass(frozen=True, slots=True)
class Setup:
    """The first message: what to become."""

    role: StageRole
    #: the checkpoint of its voice or model
    folder: str
    #: deploy settings by dotted name
    settings: Mapping[str, Any]
    threads: int
    nice: int
    cpus: tuple[int, ...] | None
    step_stats: bool
    #: when the process was asked for, ns of the monotonic clock
    launched_ns: int
    #: how long its threads wait awake for one another
    spin_ms: int = 0


@dataclass(frozen=True, slots=True)
class Attach:
    """A new ring, whose descriptors come with this message; it takes the place of the one before it."""

    end: Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class Speak:
    """Take an utterance; answered with `Refused` where that can't be, else with its last chunk."""

    request: TalkerRequest


@dataclass(frozen=True, slots=True)
class Text:
    """More text for an utterance that was opened without."""

    slot: int
    piece: TextPiece


@dataclass(frozen=True, slots=True)
class Credit:
    """More frames may be made."""

    slot: int
    grant: Grant


@dataclass(frozen=True, slots=True)
class Generate:
    """Take a request of text; answered with `Refused` where that can't be, else with `Generated` until its last."""

    request: LanguageRequest


@dataclass(frozen=True, slots=True)
class Abort:
    """Make no more of this utterance or text. One that is over or unknown is no fault."""

    slot: int
    epoch: int


@dataclass(frozen=True, slots=True)
class AskStats:
    """Answered with `StatsReply`."""


@dataclass(frozen=True, slots=True)
class ResetStats:
    """Count from nothing again."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Write what should be kept, and exit."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Start-up has reached a phase."""

    phase: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The core is built and warm."""

    spans: tuple[Span, ...]
    #: from a language stage
    facts: LanguageFacts | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The core can't be built; the stage exits."""

    fault: Fault


@dataclass(frozen=True, slots=True)
class Refused:
    """An utterance or a request of text wasn't taken; nothing of it is left in the stage."""

    slot: int
    epoch: int
    fault: Fault


@dataclass(frozen=True, slots=True)
class Generated:
    """What a language stage wrote."""

    delta: TextDelta


@dataclass(frozen=True, slots=True)
class Beat:
    """The loop is alive, and has done so many steps."""

    steps: int
    #: of a language stage (`ouzel.stages.language.COUNTERS`)
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatsReply:
    """Snapshots as JSON, one for each core of the stage; none where statistics are off."""

    snapshots: tuple[dict[str, Any], ...]


ToStage = Setup | Attach | Speak | Text | Credit | Generate | Abort | AskStats | ResetStats | Stop
FromStage = Progress | Ready | Failed | Refused | Generated | Beat | StatsReply
Message = ToStage | FromStage

_BY_NAME: dict[str, type[Message]] = {kind.__name__: kind for kind in typing.get_args(Message)}
_HINTS: dict[type, dict[str, Any]] = {}


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    return json.dumps([type(message).__name__, *_plain(message)], ensure_ascii=False, separators=(",", ":")).encode()


def decode(data: bytes) -> Message:
    """The message that bytes are.

    :raises EngineError: when they are none of ours.
    """
    try:
        name, *values = json.loads(data)
        message: Message = _typed(_BY_NAME[name], values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineError(f"{len(data)} bytes on a control channel are no message: {error!r}") from error
    return message


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return [_plain(getattr(value, entry.name)) for entry in fields(value)]
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, OuzelError):
        return _plain(Fault.of(value))
    return value


def _typed(hint: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return None if value is None else _typed(arguments[0], value)
    if origin is tuple:
        return tuple(_typed(arguments[0], entry) for entry in value)
    if isinstance(hint, type) and is_dataclass(hint):
        hints = _HINTS.get(hint) or _HINTS.setdefault(hint, typing.get_type_hints(hint))
        names = [entry.name for entry in fields(hint)]
        return hint(**{name: _typed(hints[name], entry) for name, entry in zip(names, value, strict=True)})
    if origin is Literal:
        return arguments[arguments.index(value)]
    if hint is OuzelError:
        fault: Fault = _typed(Fault, value)
        return fault.error()
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint(value)
    if hint is float and type(value) is int:
        return float(value)
    if isinstance(hint, type) and type(value) is not hint:
        raise TypeError(f"{value!r} is no {hint.__name__}")
    return value
