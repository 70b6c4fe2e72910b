"""A speech request as it comes in, and as it is meant: checked field by field, lenient about what we don't know."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ouzel.audio.chain import Shape
from ouzel.audio.formats import find_format
from ouzel.audio.tempo import check_speed
from ouzel.errors import RequestError
from ouzel.gateway.voices import Voices

__all__ = [
    "Fields",
    "Name",
    "SessionConfig",
    "SpeechRequest",
    "UnknownFields",
    "VoiceId",
    "Wish",
    "parse_fields",
    "parse_json",
]

log = logging.getLogger(__name__)

_LONGEST_NAME = 256
_LARGEST_SEED = 2**63 - 1
_MOST_FRAMES = 100_000

Name = Annotated[str, StringConstraints(max_length=_LONGEST_NAME)]


class Fields(BaseModel):
    """What a request may have in it; the rest is left out."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)
    #: would change the answer, so ignoring them would be a silent lie
    refused: ClassVar[tuple[str, ...]] = ()
    #: change nothing of the answer
    harmless: ClassVar[tuple[str, ...]] = ()


Model = TypeVar("Model", bound=Fields)


class VoiceId(BaseModel):
    """A voice in OpenAI's object form."""

    id: Name


class _Spoken(Fields):
    """What REST and WebSocket may both ask for."""

    refused: ClassVar[tuple[str, ...]] = (
        "ref_audio", "ref_text", "speaker_embedding", "word_timestamps", "x_vector_only_mode",
    )  # fmt: skip

    voice: Name | VoiceId | None = Field(None, description="Speaker name; one of OpenAI's thirteen names also works.")
    language: Name | None = Field(None, description="Language name or code; the voice decides without.")
    instructions: Annotated[str, StringConstraints(max_length=4096)] | None = Field(
        None, description="Manner of speaking."
    )
    sample_rate: int | None = Field(None, description="Hz; the voice's own rate without.")
    speed: float = Field(1.0, description="Tempo from 0.25 to 4; the pitch stays.")
    seed: int | None = Field(None, ge=0, le=_LARGEST_SEED, description="The same seed and text give the same speech.")
    max_new_tokens: int | None = Field(None, ge=1, le=_MOST_FRAMES, description="Frame limit (80 ms each).")
    chunk_frames: list[Annotated[int, Field(ge=1, le=100)]] | None = Field(
        None, min_length=1, max_length=100, description="Frames in each chunk; the last size is kept."
    )
    timing: bool = Field(False, description="Say with each chunk where its milliseconds went.")

    def wish(self, format_name: str, voices: Voices, native_rate: int, *, format_param: str) -> Wish:
        """:raises RequestError: when a field asks for what isn't there."""
        voice = self.voice.id if isinstance(self.voice, VoiceId) else self.voice
        chosen = find_format(format_name, param=format_param)
        rate = chosen.check_rate(native_rate if self.sample_rate is None else self.sample_rate)
        return Wish(
            speaker=voices.find(voice),
            shape=Shape(chosen, rate, check_speed(self.speed)),
            language=self.language,
            instruct=self.instructions,
            seed=self.seed,
            max_frames=self.max_new_tokens,
            chunk_frames=tuple(self.chunk_frames) if self.chunk_frames else None,
            timing=self.timing,
        )


class SpeechRequest(_Spoken):
    """`POST /v1/audio/speech`."""

    input: str = Field(description="The text to speak, at most 4,096 letters.")
    model: Name | None = Field(None, description="Any name; an unknown one is served by the model that is loaded.")
    response_format: Name = Field("mp3", description="mp3, opus, aac, flac, wav or pcm.")
    stream_format: Literal["audio", "sse"] = "audio"
    stream: bool | None = Field(None, description="false: one body with its length; else audio while it is made.")


class SessionConfig(_Spoken):
    """`session.config` of the WebSocket."""

    format: Name = "pcm"
    respond: bool = Field(False, description="Answer the text with a language model, and speak the answer.")
    system: str | None = Field(None, description="What the language model is told before the conversation.")
    temperature: float | None = Field(None, ge=0, description="Of the answer; 0 for the likeliest token each time.")
    max_tokens: int | None = Field(None, ge=1, le=1 << 31, description="Of the answer.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A checked request, without its text."""

    speaker: str | None
    shape: Shape
    language: str | None = None
    instruct: str | None = None
    seed: int | None = None
    max_frames: int | None = None
    chunk_frames: tuple[int, ...] | None = None
    timing: bool = False


def parse_json(text: str, what: str = "body") -> dict[str, Any]:
    """A JSON object.

    :raises RequestError: when it is none; the message says where it breaks
    """
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{what}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise RequestError(f"{what}: a JSON object is needed, not {type(value).__name__}")
    return value


def parse_fields(kind: type[Model], fields: Mapping[str, Any]) -> Model:
    """The fields in their types.

    :raises RequestError: for the first that is wrong, or that would change the answer and isn't served
    """
    for name in kind.refused:
        if fields.get(name):
            raise RequestError(f"{name}: not served here; leave it out", param=name)
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        param = str(faults[0]["loc"][0]) if faults[0]["loc"] else None
        # A field of several forms has a fault for each of them.
        said = dict.fromkeys(fault["msg"] for fault in faults if str(fault["loc"][:1]) == str(faults[0]["loc"][:1]))
        raise RequestError(f"{param}: {', or: '.join(said)}", param=param) from error


class UnknownFields:
    """What clients send and we don't know: logged once in the life of the server, or refused."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def note(self, kind: type[Fields], fields: Mapping[str, Any], *, strict: bool) -> None:
        """:raises RequestError: for the first unknown one, where `strict` asks for it."""
        unknown = sorted(fields.keys() - kind.model_fields.keys() - {*kind.refused, *kind.harmless})
        if strict and unknown:
            valid = ", ".join(kind.model_fields)
            raise RequestError(f"{unknown[0]}: no such field; valid are {valid}", param=unknown[0])
        for name in unknown:
            # The names come from outside, so even the memory of them has a bound.
            if len(self._seen) < _MOST_SEEN and name not in self._seen:
                self._seen.add(name)
                log.warning("request field %r is unknown and ignored", name[:_LONGEST_NAME])


_MOST_SEEN = 64


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
