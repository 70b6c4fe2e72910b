"""A stage that can't start says why, and how much it has compiled before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from running_stage import RunningStage
from tiny_llama import write_llama

from ouzel.errors import ConfigError
from ouzel.stages.language import LanguageSampling

pytestmark = pytest.mark.llm


def test_an_architecture_that_nobody_knows_is_named_with_the_nearest(tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "model", architectures=["LlamaForCasualLM"])
    with pytest.raises(ConfigError, match="unknown architecture 'LlamaForCasualLM'.*nearest are LlamaForCausalLM"):
        RunningStage(folder).__enter__()


def test_what_vllm_has_against_a_checkpoint_is_told(tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "model", num_key_value_heads=3)
    with pytest.raises(ConfigError, match="vLLM can't serve .*model: "):
        RunningStage(folder).__enter__()


@pytest.mark.parametrize(
    ("changes", "settings", "words"),
    [
        # transformers has an error of its own for it
        ({"hidden_size": 63}, {}, "hidden size .63. is not a multiple"),
        ({}, {"kv_cache_bytes": 256}, "not enough .*memory.* `llm.kv_cache_bytes`"),
        ({}, {"quantization": "none-such"}, "model: Value error, Unknown quantization method: none-such"),
    ],
)
def test_whatever_is_wrong_it_is_told_in_our_own_names(
    tmp_path: Path, changes: dict[str, Any], settings: dict[str, Any], words: str
) -> None:
    folder = write_llama(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        RunningStage(folder, **settings).__enter__()


def test_a_stage_ends_soon_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with RunningStage(write_llama(tmp_path / "model")) as stage:
        stage.ask("hello")
        assert stage.stop() == 0
    assert not list(temporary.glob("vllm*"))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_second_start_loads_what_the_first_has_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    folder = write_llama(tmp_path / "model")
    compiled, said = [], []
    for fix in (True, True, False):
        here = Path(__file__).parent
        settings = {"eager": False, "compile_cache_fix": fix, "factory": "counting_compiles:build"}
        with RunningStage(folder, [here], **settings) as stage:
            said.append(stage.ask("hello", sampling=LanguageSampling(temperature=0, max_tokens=16)).content)
            compiled.append(stage.counters()["compiled"])
    assert compiled == [1, 0, 1], "cold, warm, and what would be warm without the fix"
    assert len(set(said)) == 1
