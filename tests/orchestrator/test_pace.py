from __future__ import annotations

import numpy as np
import pytest

from ouzel.orchestrator.pace import DevicePace, Fitting, describe
from ouzel.scheduling import ChunkSchedule
from ouzel.stages.core import SamplesChunk
from ouzel.stats.phases import Phase

RAMP = ChunkSchedule((2, 4, 8, 16, 25))
MS = 1_000_000


def chunk(sequence: int, frames: int, phases: dict[Phase, int]) -> SamplesChunk:
    nothing = np.zeros(0, np.float32)
    return SamplesChunk(slot=0, epoch=1, sequence=sequence, samples=nothing, frames=frames, phases=phases)


def spoken(sequence: int, frames: int, times: int) -> SamplesChunk:
    each = {Phase.BACKBONE: 5 * times, Phase.SAMPLE: 1 * times, Phase.PREDICTOR: 4 * times, Phase.CODEC: 3 * times}
    phases = {phase: MS * frames * value for phase, value in each.items()}
    return chunk(sequence, frames, phases | {Phase.PREFILL: 7 * MS})


def test_the_pace_is_the_median_of_the_chunks() -> None:
    fitting = Fitting(RAMP, colocated=False)
    fitting.heard(chunk(0, 0, {}))
    fitting.refit()
    assert fitting.pace is fitting.plan is None
    for sequence, frames, times in ((0, 2, 30), (1, 4, 1), (2, 8, 1)):
        fitting.heard(spoken(sequence, frames, times))
    fitting.refit()
    assert fitting.pace == DevicePace(step_ms=10.0, decode_ms=3.0, prefill_ms=7.0)
    assert fitting.plan is not None and fitting.plan.schedule == RAMP and fitting.start_delay_s(500) == 0


def test_a_busy_moment_is_outlived(caplog: pytest.LogCaptureFixture) -> None:
    fitting = Fitting(RAMP, colocated=False)
    reasons = []
    with caplog.at_level("INFO", "ouzel.orchestrator.pace"):
        for times in (9, 1):
            for sequence in range(40):
                fitting.heard(spoken(sequence, 2, times))
                fitting.refit()
            assert fitting.plan is not None
            reasons.append(fitting.plan.reason)
            assert (fitting.start_delay_s(50) > 0) == (times == 9)
    assert "no schedule helps" in reasons[0] and reasons[1] == ""
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


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
