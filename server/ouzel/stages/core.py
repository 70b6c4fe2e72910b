"""An engine core as its loop sees it, and the messages that go in and out of the speaking cores.

A message names its stream by slot and epoch: a slot is used again and again, each time under another epoch, and what
is late for an old epoch is dropped. No torch here: codes and samples are numpy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ouzel.errors import OuzelError
from ouzel.stats.phases import Phase
from ouzel.stats.steps import Stats

__all__ = [
    "CodesChunk",
    "DecodeRequest",
    "EngineCore",
    "FinishReason",
    "Grant",
    "SamplesChunk",
    "SamplingWishes",
    "TalkerItem",
    "TalkerRequest",
    "TextPiece",
]

Request = TypeVar("Request", contravariant=True)
Item = TypeVar("Item", contravariant=True)
Output = TypeVar("Output", covariant=True)


class FinishReason(StrEnum):
    """How a stream ended; each one ends once."""

    STOP = "stop"  # the model said that it is done
    LENGTH = "length"  # it reached its limit of frames or tokens, and may be cut off
    TOOL_CALLS = "tool_calls"  # of a text alone: the model asks for tools to be called
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingWishes:
    """What a request wants otherwise than the checkpoint's generation_config.json; None leaves it."""

    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    #: The code predictor.
    sub_do_sample: bool | None = None
    sub_temperature: float | None = None
    sub_top_k: int | None = None
    sub_top_p: float | None = None
    #: The same seed and text give the same speech.
    seed: int | None = None

    def given(self) -> dict[str, bool | int | float]:
        """The wishes that were made, by name."""
        return {wish.name: value for wish in fields(self) if (value := getattr(self, wish.name)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkerRequest:
    """One utterance to speak."""

    slot: int
    epoch: int
    #: As the voice reads it (`text.voice_text`); None for a text that follows in pieces, in the streaming layout.
    text: str | None
    #: Frames after which it ends with `length`.
    max_frames: int
    #: Frames that may be made before the consumer grants more.
    granted_frames: int
    #: None for the voice's own.
    language: str | None = None
    speaker: str | None = None
    instruct: str | None = None
    streaming_layout: bool = False
    sampling: SamplingWishes = SamplingWishes()
    #: Chunk sizes; None for the profile's.
    chunk_frames: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TextPiece:
    """The next piece of a text that arrives in pieces."""

    epoch: int
    text: str
    last: bool = False
    #: with the last piece, when the text's length is known: the frame limit that follows from it, if it is lower
    max_frames: int | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """Credits: how many frames a stream may make in all, and until when its listener has audio."""

    epoch: int
    frames: int
    #: Seconds of the monotonic clock (`scheduling.PlaybackCursor.heard_until`); None before playback starts.
    heard_until: float | None = None


TalkerItem = TextPiece | Grant


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """A stream of codes that is about to come."""

    slot: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CodesChunk:
    """Frames of one stream; the last chunk of a stream may have none."""

    slot: int
    epoch: int
    #: 0, 1, 2, … within the stream
    sequence: int
    codes: NDArray[np.uint16]  # [frames, G]
    #: None but in the last chunk
    finish: FinishReason | None = None
    #: what went wrong, where `finish` is `error`
    fault: OuzelError | None = None
    #: ns that the steps which made these frames spent in each phase
    phases: Mapping[Phase, int] = field(default_factory=dict)
    #: ns that the stream waited for its text
    starved_ns: int = 0
    #: when it left its core, ns of the monotonic clock
    put_ns: int = 0

    @property
    def frames(self) -> int:
        return len(self.codes)

    @property
    def last(self) -> bool:
        return self.finish is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesChunk:
    """Sound of one stream; the last chunk of a stream may have none."""

    slot: int
    epoch: int
    sequence: int
    samples: NDArray[np.float32]  # [n] mono, in -1..1
    frames: int
    finish: FinishReason | None = None
    fault: OuzelError | None = None
    #: as in the chunk of codes, with hop and codec
    phases: Mapping[Phase, int] = field(default_factory=dict)
    starved_ns: int = 0
    put_ns: int = 0

    @property
    def last(self) -> bool:
        return self.finish is not None


class EngineCore(Protocol[Request, Item, Output]):
    """The work of one stage. One thread calls it; between two steps it neither computes nor waits.

    Every stream that `add` took ends with exactly one output that says how.
    """

    @property
    def stats(self) -> Stats:
        """What its steps are counted in."""

    @property
    def has_work(self) -> bool:
        """Whether `step` would do anything; False until something is added, fed or aborted."""

    def add(self, request: Request) -> None:
        """Take a stream.

        :raises OuzelError: when it can't be served; then nothing of it is left and no output follows.
        """

    def feed(self, slot: int, item: Item) -> None:
        """Give a stream what it waits for. An item of an old epoch, or for a stream that has ended, is dropped."""

    def abort(self, slot: int) -> None:
        """End a stream with `cancelled` at the next step; what has no stream is left alone."""

    def step(self) -> Sequence[Output]:
        """Do one piece of work and return what it made."""

    def close(self) -> None:
        """Drop all streams."""
