"""How fast this device speaks, measured when it starts, and which schedule it is served with."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ouzel.orchestrator.stream import AudioChunk
from ouzel.scheduling import ChunkSchedule, SchedulePlan, fit_schedule
from ouzel.stats.phases import Phase

__all__ = ["PROBE_FRAMES", "PROBE_TEXT", "DevicePace", "describe", "measure"]

#: Spoken once at start: touches the whole way, and takes what a listener would wait for.
PROBE_TEXT = "One, two, three, four, five."
PROBE_FRAMES = 14

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


def measure(chunks: Sequence[AudioChunk]) -> DevicePace | None:
    """The pace of an utterance, by the median of its chunks; None where it had no frame."""
    spoken = [chunk for chunk in chunks if chunk.frames]
    if not spoken:
        return None

    def each(phases: Sequence[Phase]) -> float:
        return statistics.median(
            _NS * sum(chunk.phases.get(phase, 0) for phase in phases) / chunk.frames for chunk in spoken
        )

    prefill = _NS * sum(chunk.phases.get(Phase.PREFILL, 0) for chunk in spoken)
    return DevicePace(each(_TALKER), each((Phase.CODEC,)), prefill)


def describe(pace: DevicePace, plan: SchedulePlan) -> str:
    """One line for the log."""
    measured = f"a frame takes {pace.step_ms:.1f} ms in the talker and {pace.decode_ms:.1f} ms in the codec"
    tolerated = f"the schedule tolerates {plan.tolerated_ms:.1f} ms in the talker"
    first = f"first audio after about {plan.first_audio_ms:.0f} ms"
    return "; ".join(part for part in (measured, tolerated, first, plan.reason) if part)
