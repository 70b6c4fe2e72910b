from __future__ import annotations

from pathlib import Path

from ouzel.config.schema import DeployConfig, LimitsConfig, TalkerConfig
from ouzel.engines.talker import build
from ouzel.stats.timeline import InitTimeline
from tiny_cores import request


def test_whom_the_server_let_in_waits_for_memory_and_is_not_refused(tiny_voice: Path) -> None:
    config = DeployConfig(talker=TalkerConfig(max_num_seqs=2), limits=LimitsConfig(max_waiting=0))
    core = build(tiny_voice, config, InitTimeline("test"))
    for slot in range(2):
        core.add(request(slot, max_frames=1500))
    assert {chunk.slot for chunk in core.step() + core.step()} == {0}
    core.abort(0)
    assert {chunk.slot for _ in range(3) for chunk in core.step() if chunk.frames} == {1}


def test_a_voice_speaks_in_four_bits(tiny_voice: Path) -> None:
    config = DeployConfig(talker=TalkerConfig(max_num_seqs=2, quantization="int4", quantization_group=128))
    core = build(tiny_voice, config, InitTimeline("test"))
    core.add(request(0, max_frames=4))
    chunks = [chunk for _ in range(8) for chunk in core.step()]
    assert sum(chunk.frames for chunk in chunks) > 0
