"""Four-bit weights in the language stage, as they are served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_stage import Answer, RunningStage
from safetensors.torch import load_file, save_file
from tiny_llama import write_llama

from ouzel.errors import ConfigError
from ouzel.quantization.grid import asymmetric
from ouzel.quantization.groups import group_size, is_packed
from ouzel.stages.language import LanguageSampling
from ouzel.tools.make_checkpoint import TINY, make_checkpoint
from ouzel.tools.quantize import quantize

pytestmark = pytest.mark.llm

AT_LOAD: dict[str, Any] = {"quantization": "ouzel_w4a16", "quantization_group": 32}
GREEDY = LanguageSampling(max_tokens=24, temperature=0, ignore_eos=True, logprobs=5)
#: The second has more rows than are multiplied one after the other.
PROMPTS = ("Once", "A prompt that is read in one step of many rows.")
SPARK_KV_BYTES = 64 * 128 * 2 * 2 * 64 * 2 * 2


def answers(stage: RunningStage) -> list[Answer]:
    return [stage.ask(words, sampling=GREEDY) for words in PROMPTS]


def distance(ours: list[Answer], others: list[Answer]) -> float:
    """Between the logprobs of the answers' first tokens, by what they write."""
    found = []
    for one, other in zip(ours, others, strict=True):
        assert one.logprobs[0].top and other.logprobs[0].top
        there = {entry.bytes: entry.logprob for entry in other.logprobs[0].top}
        found += [abs(entry.logprob - there[entry.bytes]) for entry in one.logprobs[0].top if entry.bytes in there]
    assert found
    return max(found)


def on_the_grid(source: Path, folder: Path) -> Path:
    """The same checkpoint with weights that are what four bits make of them, in float32."""
    write_llama(folder)
    weights = load_file(source / "model.safetensors")
    for name, weight in weights.items():
        if is_packed(name, weight.shape):
            weights[name] = asymmetric(weight, group_size(weight.shape[1], 32)).dequantize()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="module")
def at_load(source: Path) -> Iterator[list[Answer]]:
    with RunningStage(source, dtype="float32", kv_cache_bytes=32 * 128 * 512, **AT_LOAD) as stage:
        yield answers(stage)


def test_it_writes_what_its_grid_writes_in_floating_point(source: Path, at_load: list[Answer], tmp_path: Path) -> None:
    folder = on_the_grid(source, tmp_path / "grid")
    with RunningStage(folder, dtype="float32", kv_cache_bytes=32 * 128 * 512) as stage:
        exact = answers(stage)
    # Activations are rounded to bfloat16 before each product: 0.10. Weights on no grid are 1.6 away.
    assert distance(at_load, exact) < 0.25


def test_a_checkpoint_quantized_before_writes_the_same(source: Path, at_load: list[Answer], tmp_path: Path) -> None:
    quantize(source, tmp_path / "quantized", 32)
    with RunningStage(tmp_path / "quantized", dtype="float32", kv_cache_bytes=32 * 128 * 512) as stage:
        assert answers(stage) == at_load
    # Nothing of the group at load reaches it.
    quantized = load_file(tmp_path / "quantized" / "model-00001.safetensors")
    del quantized["model.layers.1.mlp.up_proj.scales"]
    save_file(quantized, tmp_path / "quantized" / "model-00001.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"layers.1.mlp.gate_up_proj.scales has 128 rows .*expected 256"):
        RunningStage(tmp_path / "quantized").__enter__()


@pytest.mark.slow
def test_a_head_of_its_own_and_a_graph_that_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path / "cache"))
    folder = write_llama(tmp_path / "untied", tie_word_embeddings=False)
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].flip(0).contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    found = []
    for settings in ({"eager": True}, {"eager": False}, {"eager": False, "quantization_group": 64}):
        with RunningStage(folder, **(AT_LOAD | settings)) as stage:
            found.append(answers(stage))
    eager, compiled, wider = found
    assert distance(compiled, eager) < 0.25
    # A graph that was compiled for one group must not be taken for another.
    assert distance(wider, compiled) > 0


def test_spark_is_served_in_four_bits(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "spark", TINY)
    quantize(folder, tmp_path / "quantized", 128)
    found = []
    settings: dict[str, Any] = {"kv_cache_bytes": SPARK_KV_BYTES, "max_model_len": 1024}
    for path, more in ((folder, {"quantization": "ouzel_w4a16"}), (tmp_path / "quantized", {})):
        with RunningStage(path, **settings, **more) as stage:
            found.append(answers(stage))
    assert found[0] == found[1]


def test_a_group_that_divides_no_width_is_told(tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "narrow", intermediate_size=80)
    with pytest.raises(ConfigError, match="a layer of 80 inputs can't be quantized"):
        RunningStage(folder, **AT_LOAD).__enter__()
