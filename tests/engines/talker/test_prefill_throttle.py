from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ouzel.engines.talker import TalkerCore
from ouzel.stages.core import Grant
from tiny_cores import LIMIT, Clock, request, talker_core, talker_side

STEP_S = 0.010
ROW_S = 0.001
HOLD_S = 0.1


@pytest.fixture
def slow(tiny_voice: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[TalkerCore, Clock]:
    """A core whose steps take 10 ms and whose prompts take 1 ms a row, with one stream that speaks."""
    clock, talker = Clock(), talker_side(tiny_voice).talker
    decode, prefill = talker.decode, talker.prefill

    def slow_decode(rows: torch.Tensor, caches: object) -> torch.Tensor:
        clock.sleep(STEP_S)
        return decode(rows, caches)

    def slow_prefill(rows: torch.Tensor, cache: object) -> torch.Tensor:
        clock.sleep(ROW_S * len(rows))
        return prefill(rows, cache)

    monkeypatch.setattr(talker, "decode", slow_decode)
    monkeypatch.setattr(talker, "prefill", slow_prefill)
    core = talker_core(tiny_voice, clock=clock, hold_s=HOLD_S)
    core.add(request(0, max_frames=30))
    for _ in range(5):
        core.step()
    return core, clock


def steps_until_heard(core: TalkerCore, clock: Clock, slack_s: float) -> int:
    """Steps until the second stream has a frame, with a first listener who always has `slack_s` of audio."""
    core.add(request(1, chunk_frames=(1,)))
    for step in range(LIMIT):
        core.feed(0, Grant(1, 1000, heard_until=clock() * 1e-9 + slack_s))
        if any(chunk.slot == 1 for chunk in core.step()):
            return step
    raise AssertionError("the second stream was never heard")


def test_a_listener_with_audio_to_spare_lets_a_prompt_in_at_once(slow: tuple[TalkerCore, Clock]) -> None:
    assert steps_until_heard(*slow, slack_s=0.5) == 0


def test_a_listener_who_is_short_holds_a_prompt_back_but_not_for_ever(slow: tuple[TalkerCore, Clock]) -> None:
    assert steps_until_heard(*slow, slack_s=0.03) == pytest.approx(HOLD_S / STEP_S, abs=1)


def test_a_listener_who_has_heard_nothing_yet_holds_nobody_back(slow: tuple[TalkerCore, Clock]) -> None:
    core, _ = slow
    core.add(request(1, chunk_frames=(1,)))
    assert any(chunk.slot == 1 for chunk in core.step())
