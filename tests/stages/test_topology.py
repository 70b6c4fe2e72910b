from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ouzel.config.schema import Code2WavConfig, DeployConfig, OrchestratorConfig, TalkerConfig
from ouzel.errors import ConfigError
from ouzel.stages.messages import StageRole
from ouzel.stages.process import child_environment
from ouzel.stages.topology import StageSpec, flatten, restore, topology


def test_side_by_side_is_two_stages_and_colocated_one_with_all_threads() -> None:
    config = DeployConfig(talker=TalkerConfig(threads=3, nice=1, cpus=(0, 1)), code2wav=Code2WavConfig(threads=2))
    talker, code2wav = config.talker, config.code2wav
    assert topology(config, 8) == (
        StageSpec(StageRole.TALKER, 2, 1, (0, 1), talker.ring_bytes),
        StageSpec(StageRole.CODE2WAV, 2, 0, None, code2wav.ring_bytes),
    ), "no more threads than cores of its own"
    for orchestrator in (OrchestratorConfig(placement="colocate"), OrchestratorConfig(in_process=True)):
        together = replace(config, orchestrator=orchestrator)
        assert topology(together, 8) == (StageSpec(StageRole.SPEECH, 5, 0, None, code2wav.ring_bytes),)


def test_no_stage_has_more_threads_than_there_are_cores() -> None:
    config = DeployConfig(talker=TalkerConfig(threads=16), code2wav=Code2WavConfig(threads=16))
    assert [spec.threads for spec in topology(config, 2)] == [2, 2]


def test_settings_survive_the_way_to_a_stage() -> None:
    config = DeployConfig(talker=TalkerConfig(cpus=(1,), chunk_frames=(1, 25), kv_cache_bytes=7))
    settings = json.loads(json.dumps(flatten(config)))
    assert restore(settings) == config
    with pytest.raises(ConfigError, match="talker.threads is 'two'"):
        restore(settings | {"talker.threads": "two"})


def test_a_stage_inherits_its_threads_and_not_the_watchdog() -> None:
    found = child_environment({"PATH": "/bin", "NOTIFY_SOCKET": "/run/x", "OMP_NUM_THREADS": "64"}, threads=3)
    assert found["OMP_NUM_THREADS"] == "3" and found["OMP_WAIT_POLICY"] == "PASSIVE"
    assert "NOTIFY_SOCKET" not in found and found["PATH"] == "/bin"
