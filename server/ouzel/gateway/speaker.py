"""What the gateway needs of whoever makes the sound. The orchestrator gives it, and a fake in the tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ouzel.errors import OuzelError
from ouzel.stages.core import FinishReason
from ouzel.stats.phases import Phase

__all__ = ["End", "Health", "Sound", "Speaker", "State", "Utterance"]


class State(StrEnum):
    """What a speaker is good for right now."""

    LOADING = "loading"
    READY = "ready"
    DEGRADED = "degraded"  # a stage is being started again
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Health:
    """A speaker's condition."""

    state: State
    #: for a person: what is loading, which stage is gone
    detail: str = ""
    #: every stage has made progress lately, or has nothing to do
    moving: bool = True
    #: whatever else is worth knowing: schedule, step time, expected first audio
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def serving(self) -> bool:
        """Whether a request makes sense now."""
        return self.state in (State.READY, State.DEGRADED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One thing to say. None leaves a wish to the voice or the deployment."""

    #: whole, or in pieces that are each safe to speak, whatever follows
    text: str | AsyncIterator[str]
    speaker: str | None = None
    language: str | None = None
    instruct: str | None = None
    seed: int | None = None
    max_frames: int | None = None
    chunk_frames: tuple[int, ...] | None = None
    #: The pieces may end anywhere between words, and a voice that can reads along while they come.
    along: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """Whole codec frames of an utterance."""

    samples: NDArray[np.float32]  # [frames × samples of a frame]
    frames: int
    #: ns that went into these frames
    phases: Mapping[Phase, int] = field(default_factory=dict)
    #: ns that they waited for text
    starved_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How an utterance ended; comes once, last."""

    reason: FinishReason
    fault: OuzelError | None = None


class Speaker(Protocol):
    """Speech, one utterance at a time or many."""

    @property
    def model(self) -> str:
        """The name of the voice model."""

    @property
    def sample_rate(self) -> int:
        """Of all sound, in Hz; known once it serves."""

    @property
    def voices(self) -> Sequence[str]:
        """Speaker names, the default one first; empty where the model has a single nameless voice."""

    def speak(self, utterance: Utterance) -> AsyncGenerator[Sound | End, None]:
        """Sounds as they are made, then one End. Closing the generator aborts; not pulling makes the talker wait.

        :raises RequestError: when the utterance cannot be said
        :raises BusyError, NotReadyError: at the first pull
        """

    def count_tokens(self, text: str) -> int:
        """How many tokens the model reads in a text. Blocking, and slow the first time."""

    def health(self) -> Health:
        """Its condition, without waiting."""
