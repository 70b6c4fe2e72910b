"""How fast this device speaks, and which schedule it is served with."""

from __future__ import annotations

import logging
import statistics
from collections import deque
from dataclasses import dataclass
from itertools import repeat

from ouzel.scheduling import ChunkSchedule, SchedulePlan, fit_schedule
from ouzel.stages.core import SamplesChunk
from ouzel.stats.phases import Phase

__all__ = ["PROBE_FRAMES", "PROBE_TEXT", "TYPICAL_FRAMES", "DevicePace", "Fitting", "describe"]

log = logging.getLogger(__name__)

#: Spoken once at start: touches the whole way, and takes what a listener would wait for.
PROBE_TEXT = "One, two, three, four, five."
PROBE_FRAMES = 14
#: An utterance of this length is what the plan is made for; a start delay is computed for each one's own.
TYPICAL_FRAMES = 125
#: chunks that the pace is taken from: a few utterances
_NEWEST = 32

_TALKER = (Phase.BACKBONE, Phase.SAMPLE, Phase.PREDICTOR)
_NS = 1e-6  # ms


@dataclass(frozen=True, slots=True)
class DevicePace:
    """Milliseconds; `step_ms` and `decode_ms` a frame."""

    step_ms: float
    decode_ms: float
    prefill_ms: float

    def plan(self, wanted: ChunkSchedule, frames: int, *, colocated: bool) -> SchedulePlan:
        """What an utterance of `frames` frames is served with."""
        return fit_schedule(
            wanted, self.step_ms, self.decode_ms, frames=frames, prefill_ms=self.prefill_ms, colocated=colocated
        )


class Fitting:
    """Follows the pace of this device and fits the schedule to it: the busy moment of a start doesn't last."""

    def __init__(self, wanted: ChunkSchedule, *, colocated: bool) -> None:
        self.wanted = wanted
        self.pace: DevicePace | None = None
        #: what requests are served with that ask for nothing else; None before anything was spoken
        self.plan: SchedulePlan | None = None
        self._colocated = colocated
        self._talker: deque[float] = deque(maxlen=_NEWEST)  # ms a frame
        self._codec: deque[float] = deque(maxlen=_NEWEST)
        self._prefill: deque[float] = deque(maxlen=_NEWEST)  # ms

    def heard(self, chunk: SamplesChunk) -> None:
        """Note what a chunk took, whoever it is for."""
        if chunk.frames:
            self._talker.append(sum(map(chunk.phases.get, _TALKER, repeat(0))) * _NS / chunk.frames)
            self._codec.append(chunk.phases.get(Phase.CODEC, 0) * _NS / chunk.frames)
            if not chunk.sequence:
                self._prefill.append(chunk.phases.get(Phase.PREFILL, 0) * _NS)

    def refit(self) -> None:
        """Plan by the median of the newest chunks; say so where the profile's schedule ceases to do, or does."""
        if not self._prefill:
            return
        pace = DevicePace(*map(statistics.median, (self._talker, self._codec, self._prefill)))
        if pace == self.pace:
            return
        before, self.pace = self.plan, pace
        self.plan = pace.plan(self.wanted, TYPICAL_FRAMES, colocated=self._colocated)
        if before is None or bool(before.reason) != bool(self.plan.reason):
            (log.warning if self.plan.reason else log.info)("%s", describe(pace, self.plan))

    def start_delay_s(self, frames: int | None) -> float:
        """How long playback must wait so that it never has to again; None where the length isn't known."""
        if self.pace is None or self.plan is None or not self.plan.start_delay_ms:
            return 0.0
        return self.pace.plan(self.wanted, frames or TYPICAL_FRAMES, colocated=self._colocated).start_delay_ms / 1000


def describe(pace: DevicePace, plan: SchedulePlan) -> str:
    """One line for the log."""
    measured = f"a frame takes {pace.step_ms:.1f} ms in the talker and {pace.decode_ms:.1f} ms in the codec"
    tolerated = f"the schedule tolerates {plan.tolerated_ms:.1f} ms in the talker"
    first = f"first audio after about {plan.first_audio_ms:.0f} ms"
    return "; ".join(part for part in (measured, tolerated, first, plan.reason) if part)
