from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ouzel.config.schema import Code2WavConfig, DeployConfig, LlmConfig, OrchestratorConfig, TalkerConfig
from ouzel.errors import ConfigError
from ouzel.stages.messages import StageRole
from ouzel.stages.process import child_environment
from ouzel.stages.topology import StageSpec, flatten, language_stage, restore, topology


def test_side_by_side_is_two_stages_and_colocated_one_with_all_threads() -> None:
    config = DeployConfig(talker=TalkerConfig(threads=2, nice=1, cpus=(0, 1)), code2wav=Code2WavConfig(threads=3))
    talker, code2wav = config.talker, config.code2wav
    assert topology(config, 8, range(8)) == (
        StageSpec(StageRole.TALKER, 2, 1, (0, 1), talker.ring_bytes),
        StageSpec(StageRole.CODE2WAV, 3, 0, None, code2wav.ring_bytes),
    )
    for orchestrator in (OrchestratorConfig(placement="colocate"), OrchestratorConfig(in_process=True)):
        together = replace(config, orchestrator=orchestrator)
        assert topology(together, 8, range(8)) == (StageSpec(StageRole.SPEECH, 5, 0, None, code2wav.ring_bytes),)


@pytest.mark.parametrize(
    ("talker", "code2wav", "complaint"),
    [
        ({"threads": 2}, {}, "talker.threads 2 and code2wav.threads 1 are more than the 2 cores"),
        ({"threads": 3}, {}, "talker.threads is 3; it has 2 cores"),
        ({"threads": 2, "cpus": (0,)}, {}, "talker.threads is 2; it has 1 cores"),
        ({"cpus": (0, 2)}, {}, r"talker.cpus is \[0, 2\]; this process may use \[0, 1\]"),
        ({}, {"cpus": ()}, "code2wav.cpus is empty"),
    ],
)
def test_never_more_busy_threads_than_cores(talker: dict[str, Any], code2wav: dict[str, Any], complaint: str) -> None:
    config = DeployConfig(talker=TalkerConfig(**talker), code2wav=Code2WavConfig(**code2wav))
    with pytest.raises(ConfigError, match=complaint):
        topology(config, 2, range(2))


def test_stages_that_take_turns_have_all_cores_and_two_single_threads_may_share_one() -> None:
    config = DeployConfig(talker=TalkerConfig(threads=2), code2wav=Code2WavConfig(threads=2))
    (both,) = topology(replace(config, orchestrator=OrchestratorConfig(placement="colocate")), 2, range(2))
    assert both.threads == 2
    assert [spec.threads for spec in topology(DeployConfig(), 1, range(1))] == [1, 1]


def test_the_language_stage_stands_beside_the_chain_and_has_no_ring() -> None:
    config = DeployConfig(llm=LlmConfig(threads=2, nice=7, cpus=(0, 1), spin_ms=3))
    assert language_stage(config, 2, range(2)) == StageSpec(StageRole.LLM, 2, 7, (0, 1), None, 3)


@pytest.mark.parametrize(
    ("llm", "complaint"),
    [
        ({"threads": 3}, "llm.threads is 3; it has 2 cores"),
        ({"threads": 2, "cpus": (1,)}, "llm.threads is 2; it has 1 cores"),
        ({"cpus": (2,)}, r"llm.cpus is \[2\]; this process may use \[0, 1\]"),
        ({"cpus": ()}, "llm.cpus is empty"),
    ],
)
def test_a_language_stage_that_the_device_has_no_cores_for(llm: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        language_stage(DeployConfig(llm=LlmConfig(**llm)), 2, range(2))


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


def test_threads_wait_awake_for_one_another_where_an_openmp_is_there_that_can_be_told(tmp_path: Path) -> None:
    environ = {"OMP_WAIT_POLICY": "ACTIVE", "LD_PRELOAD": "/x/jemalloc.so"}
    assert child_environment(environ, 2, spin_ms=3, libraries=tmp_path)["OMP_WAIT_POLICY"] == "PASSIVE"
    openmp = tmp_path / "libiomp5.so"
    openmp.touch()
    found = child_environment(environ, 2, spin_ms=3, libraries=tmp_path)
    assert found["LD_PRELOAD"] == f"{openmp}:/x/jemalloc.so" and found["KMP_BLOCKTIME"] == "3"
    assert "OMP_WAIT_POLICY" not in found
    for threads, spin_ms in ((1, 3), (2, 0)):
        assert child_environment(environ, threads, spin_ms, libraries=tmp_path)["LD_PRELOAD"] == "/x/jemalloc.so"
