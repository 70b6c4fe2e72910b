"""Both formats on tiny checkpoints, without vLLM: what is written, and what it is worth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from plain_llama import PlainLlama
from spark_reference import logprobs as spark_logprobs
from tiny_decoders import config, read, write_tiny_llama, write_tiny_spark
from torch import Tensor

from ouzel.errors import CheckpointError, ConfigError, OutputError
from ouzel.quantization.activations import Activations, Collector
from ouzel.quantization.symmetric import symmetric
from ouzel.tools.awq_export import awq_export, fold
from ouzel.tools.decoder_names import names_of
from ouzel.tools.expand import expand
from ouzel.tools.folders import SourceFolder
from ouzel.tools.four_bit_export import Part
from ouzel.tools.gptq_export import gptq_export

IDS = list(range(5, 45))
#: in `config.json`, what each format is known by
METHODS = {"gptq": {"sym": True, "desc_act": False}, "awq": {"zero_point": True, "version": "gemm"}}


def seen_by(folder: Path, *, second_moment: bool = False) -> dict[str, Activations]:
    model = PlainLlama(folder)
    model.logprobs(IDS)
    found = {}
    for name, x in model.given.items():
        collector = Collector(second_moment=second_moment)
        collector.add(x)
        found[name] = collector.activations()
    return found


def unseen(folder: Path) -> dict[str, Activations]:
    """As if every input had been as loud as any other."""
    source = SourceFolder(folder)
    names = names_of(source)
    linears = [name for layer in range(names.layers) for name in names.linears(layer)]
    widths = {name: source.shape(f"{name}.weight")[1] for name in linears}
    widths[names.head] = source.shape(f"{names.embedding}.weight")[1]
    return {name: Activations(*(torch.ones(width),) * 2, torch.eye(width)) for name, width in widths.items()}


def export(method: str, source: Path, folder: Path, **more: object) -> Path:
    if method == "gptq":
        gptq_export(source, folder, **more)  # type: ignore[arg-type]
    else:
        awq_export(source, folder, unseen(source), **more)  # type: ignore[arg-type]
    return folder


def distance(one: Tensor, other: Tensor) -> float:
    """Of logits: the mean square, a constant of each position left out by the softmax."""
    return float((one - other).square().mean())


@pytest.mark.parametrize("method", METHODS)
def test_all_but_embedding_and_norms_has_four_bits(tmp_path: Path, method: str) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    made = read(export(method, source, tmp_path / "made", group=32))
    parts = {"qweight", "qzeros", "scales"} | ({"g_idx"} if method == "gptq" else set())
    linears = [name for name, weight in read(source).items() if weight.ndim == 2 and "embed" not in name]
    modules = ["lm_head", *(name.removesuffix(".weight") for name in linears)]
    packed = {f"{module}.{part}" for module in modules for part in parts}
    assert made.keys() == packed | (read(source).keys() - set(linears))
    assert made["model.embed_tokens.weight"].dtype == torch.bfloat16
    said = config(tmp_path / "made")
    assert said["tie_word_embeddings"] is False
    assert said["torch_dtype"] == "bfloat16"
    settings = said["quantization_config"]
    assert isinstance(settings, dict)
    assert settings.items() >= {"quant_method": method, "bits": 4, "group_size": 32, "lm_head": True}.items()
    assert settings.items() >= METHODS[method].items()
    assert (tmp_path / "made/tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()


def test_the_expansion_is_what_the_grid_says(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    gptq_export(source, tmp_path / "gptq", group=32)
    expand(tmp_path / "gptq", tmp_path / "expanded")
    before, after = read(source), read(tmp_path / "expanded")
    assert after.keys() == before.keys() | {"lm_head.weight"}
    for name, weight in after.items():
        whole = before["model.embed_tokens.weight" if name == "lm_head.weight" else name]
        four_bits = whole.ndim == 2 and "embed" not in name
        assert torch.equal(weight, (symmetric(whole, 32).dequantize() if four_bits else whole).bfloat16()), name
    assert "quantization_config" not in config(tmp_path / "expanded")


@pytest.mark.parametrize("method", METHODS)
def test_spark_keeps_its_gate(tmp_path: Path, method: str) -> None:
    source = write_tiny_spark(tmp_path / "spark")
    made = read(export(method, source, tmp_path / "made", group=32))
    for module in ("self_attn.q_k_v_proj", "self_attn.out_proj", "mlp.down_proj"):
        assert f"model.layers.3.{module}.qweight" in made
    assert made["model.layers.3.self_attn.g_proj.weight"].dtype == torch.bfloat16
    expand(tmp_path / "made", tmp_path / "expanded")
    weights = {name: weight.float() for name, weight in read(source).items()}
    rounded = {name: weight.float() for name, weight in read(tmp_path / "expanded").items()}
    whole = spark_logprobs(config(source), weights, IDS)
    assert 0 < distance(whole, spark_logprobs(config(tmp_path / "expanded"), rounded, IDS)) < 0.2 * float(whole.var())


@pytest.mark.parametrize("write", [write_tiny_llama, write_tiny_spark])
def test_folding_leaves_the_function_as_it_is(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    source = SourceFolder(write(tmp_path / "model"))
    names = names_of(source)
    before = {name: source[name] for name in source}
    before[f"{names.head}.weight"] = before[f"{names.embedding}.weight"]
    part = Part(dict(before), ())
    draw = torch.Generator().manual_seed(1)
    for join in (join for layer in range(names.layers) for join in names.joins(layer)):
        width = before[f"{join.readers[0]}.weight"].shape[1] // join.sharing
        fold(part, join, torch.rand(width, generator=draw) * 4 + 0.25)
    untied = config(tmp_path / "model") | {"tie_word_embeddings": False}
    assert all(not torch.equal(before[name], part.tensors[name]) for name in before if ".layers." in name)
    if write is write_tiny_llama:
        one, other = (PlainLlama(tmp_path / "model", weights).logprobs(IDS) for weights in (before, part.tensors))
    else:
        one, other = (spark_logprobs(untied, weights, IDS) for weights in (before, part.tensors))
    assert (one - other).abs().max() < 1e-4


def test_each_refinement_brings_the_outputs_nearer(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama", hidden=128)
    seen, moments = seen_by(source), seen_by(source, second_moment=True)
    whole = PlainLlama(source).logprobs(IDS)

    def lost(name: str) -> float:
        expand(tmp_path / name, tmp_path / f"{name} expanded")
        return distance(whole, PlainLlama(tmp_path / f"{name} expanded").logprobs(IDS))

    gptq_export(source, tmp_path / "plain", search=False)
    gptq_export(source, tmp_path / "searched")
    gptq_export(source, tmp_path / "important", seen=seen)
    gptq_export(source, tmp_path / "feedback", seen=moments)
    awq_export(source, tmp_path / "unscaled", unseen(source))
    awq_export(source, tmp_path / "awq", seen)
    found = {name: lost(name) for name in ("plain", "searched", "important", "feedback", "unscaled", "awq")}
    assert found["plain"] > found["searched"] > found["important"] > found["feedback"], found
    assert found["searched"] > found["unscaled"] > found["awq"], found


def test_the_group_fits_every_layer(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama", hidden=64)  # and 128 within the MLP
    assert gptq_export(source, tmp_path / "made", group=128) == 64


def test_a_width_without_a_group_is_refused(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama", hidden=80)
    with pytest.raises(ConfigError, match="80 (inputs|outputs)"):
        gptq_export(source, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_vocabulary_that_the_kernel_does_not_take_is_refused(tmp_path: Path) -> None:
    source = write_tiny_spark(tmp_path / "spark", vocabulary=544)
    with pytest.raises(ConfigError, match="lm_head has 544 outputs.*multiple of 64"):
        gptq_export(source, tmp_path / "made")


def test_what_is_quantized_already_is_refused(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    gptq_export(source, tmp_path / "made", group=32)
    with pytest.raises(CheckpointError, match=r"quantized already \(gptq\)"):
        gptq_export(tmp_path / "made", tmp_path / "again")
    with pytest.raises(CheckpointError, match=r"quantized already \(gptq\)"):
        awq_export(tmp_path / "made", tmp_path / "again", {})


@pytest.mark.parametrize("method", METHODS)
def test_a_folder_with_files_is_refused(tmp_path: Path, method: str) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    (tmp_path / "made").mkdir()
    (tmp_path / "made/mine").write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        export(method, source, tmp_path / "made")
    assert (tmp_path / "made/mine").read_text() == "mine"


def test_awq_without_activations_is_refused(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    with pytest.raises(ConfigError, match=r"no activations are known of model.layers.0.self_attn.q_proj"):
        awq_export(source, tmp_path / "made", {})
    assert not (tmp_path / "made").exists()


def test_layers_that_are_not_known_are_refused(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    path = source / "config.json"
    path.write_text(path.read_text().replace('"llama"', '"gemma3"'))
    with pytest.raises(ConfigError, match="'gemma3'.*llama"):
        gptq_export(source, tmp_path / "made")


def test_only_a_four_bit_checkpoint_is_expanded(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    with pytest.raises(CheckpointError, match="expected quant_method gptq, awq, ouzel_w4a16"):
        expand(source, tmp_path / "made")
