"""Where the milliseconds of a piece of audio went: the same object on every wire."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from ouzel.stats.phases import FRAME_NS, Phase

__all__ = ["StepLog", "Timing", "server_timing"]

_START = (Phase.QUEUE, Phase.TEXT, Phase.PREFILL)
_BESIDE = (Phase.QUEUE, Phase.TEXT)  # waited for, or done once: no part of a frame's budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One piece of an utterance."""

    #: the first codec frame in it, and how many
    frame: int
    frames: int
    audio_ms: float
    #: ns in each phase, all processes together
    phases: Mapping[Phase, int] = field(default_factory=dict)
    #: ns that the piece waited for text: a slow writer, not a slow model
    starved_ns: int = 0
    #: silence that a listener heard before it
    gap_ms: float = 0.0

    @property
    def budget_ns(self) -> int:
        return self.frames * FRAME_NS

    @property
    def used_ns(self) -> int:
        """Work that went into the piece; the phases add up to it."""
        return sum(self.work().values())

    def work(self) -> dict[Phase, int]:
        return {phase: ns for phase, ns in self.phases.items() if phase not in _BESIDE}

    def to_json(self) -> dict[str, object]:
        return {
            "frame": self.frame,
            "frames": self.frames,
            "audio_ms": round(self.audio_ms, 3),
            "phases_ms": {phase.value: _ms(ns) for phase, ns in self.work().items()},
            "used_ms": _ms(self.used_ns),
            "budget_ms": _ms(self.budget_ns),
            "before_ms": {phase.value: _ms(self.phases[phase]) for phase in _BESIDE if phase in self.phases},
            "starved_ms": _ms(self.starved_ns),
            "gap_ms": round(self.gap_ms, 3),
        }


def server_timing(first: Timing) -> str:
    """The Server-Timing header: what came before the first sound."""
    return ", ".join(f"{phase.value};dur={_ms(first.phases.get(phase, 0))}" for phase in _START)


class StepLog:
    """The timings of the latest requests, for whoever asks after the stream."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._records: OrderedDict[str, list[Timing]] = OrderedDict()

    def open(self, request_id: str) -> list[Timing]:
        """A list to append to; the oldest request is forgotten."""
        self._records.pop(request_id, None)
        while len(self._records) >= self._most:
            self._records.popitem(last=False)
        return self._records.setdefault(request_id, [])

    def find(self, request_id: str) -> list[Timing] | None:
        return self._records.get(request_id)


def _ms(ns: int) -> float:
    return round(ns / 1e6, 3)
