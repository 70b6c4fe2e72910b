"""What the counter of preemptions is worth: with a reservation that is too low, it counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from running_stage import RunningStage, put_together
from tiny_llama import write_llama

from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, LanguageSampling

pytestmark = pytest.mark.llm


def test_a_reservation_that_is_too_low_is_seen_in_the_counter(tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "model")
    # Seven blocks and one that vLLM keeps: four requests of three blocks each don't fit.
    cache = {"kv_cache_bytes": 8 * 128 * 256}
    request = LanguageRequest(
        prompt="x" * 100, sampling=LanguageSampling(temperature=0, max_tokens=260, ignore_eos=True)
    )
    here = Path(__file__).parent
    with RunningStage(folder, [here], factory="low_reservation:build", **cache) as stage:
        epochs = [stage.send(request, slot) for slot in range(4)]
        ended = stage.deltas(*epochs)
        assert {put_together(deltas).finish for deltas in ended.values()} == {FinishReason.LENGTH}
        assert stage.counters()["preemptions"] > 0
