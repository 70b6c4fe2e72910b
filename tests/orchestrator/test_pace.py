from __future__ import annotations

import numpy as np

from ouzel.orchestrator.pace import DevicePace, describe, measure
from ouzel.orchestrator.stream import AudioChunk
from ouzel.scheduling import ChunkSchedule
from ouzel.stats.phases import Phase

RAMP = ChunkSchedule((2, 4, 8, 16, 25))
MS = 1_000_000


def chunk(frames: int, phases: dict[Phase, int]) -> AudioChunk:
    return AudioChunk(
        request_id="r1",
        sequence=0,
        sentence=0,
        samples=np.zeros(1920 * frames, np.float32),
        sample_rate=24_000,
        frames=frames,
        phases=phases,
        starved_ns=0,
        came_at=0.0,
    )


def test_the_pace_is_the_median_of_the_chunks() -> None:
    def spoken(frames: int, ms: int) -> AudioChunk:
        each = {Phase.BACKBONE: 5 * ms, Phase.SAMPLE: 1 * ms, Phase.PREDICTOR: 4 * ms, Phase.CODEC: 3 * ms}
        return chunk(frames, {phase: MS * frames * value for phase, value in each.items()} | {Phase.PREFILL: 7 * MS})

    found = measure([spoken(2, 30), spoken(4, 1), spoken(8, 1), chunk(0, {})])
    assert found == DevicePace(step_ms=10.0, decode_ms=3.0, prefill_ms=21.0)
    assert measure([chunk(0, {})]) is None


def test_a_device_that_keeps_up_is_served_with_the_profiles_schedule() -> None:
    pace = DevicePace(step_ms=20, decode_ms=5, prefill_ms=30)
    plan = pace.plan(RAMP, 125, colocated=False)
    assert (plan.schedule, plan.start_delay_ms, plan.reason) == (RAMP, 0.0, "")
    assert plan.first_audio_ms == 30 + 2 * 25
    assert describe(pace, plan) == (
        "a frame takes 20.0 ms in the talker and 5.0 ms in the codec; "
        "the schedule tolerates 37.5 ms in the talker; first audio after about 80 ms"
    )


def test_a_slower_device_has_a_gentler_schedule_and_one_slower_than_speech_a_start_delay() -> None:
    gentle = DevicePace(step_ms=50, decode_ms=5, prefill_ms=0).plan(RAMP, 125, colocated=False)
    assert gentle.schedule != RAMP and gentle.start_delay_ms == 0 and "instead" in gentle.reason
    slow = DevicePace(step_ms=100, decode_ms=5, prefill_ms=0)
    short, long = (slow.plan(RAMP, frames, colocated=False) for frames in (50, 500))
    assert 0 < short.start_delay_ms < long.start_delay_ms and "no schedule helps" in long.reason
