"""Our own four-bit checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from ouzel.cli import app
from ouzel.engines.llm.checkpoint import read_checkpoint
from ouzel.errors import CheckpointError, ConfigError, OutputError
from ouzel.quantization.activations import Collector
from ouzel.quantization.grid import asymmetric
from ouzel.quantization.portable import from_portable
from ouzel.tools import quantize as quantizing
from ouzel.tools.folders import SourceFolder
from ouzel.tools.make_checkpoint import TINY, Geometry, make_checkpoint
from ouzel.tools.quantize import quantize

SMALL = Geometry(layers=2, hidden=64, inner=160, heads=2, kv_heads=1, head_size=32, vocabulary=512, window=32)


def test_a_checkpoint_in_four_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, folder = make_checkpoint(tmp_path / "source", SMALL), tmp_path / "quantized"
    monkeypatch.setattr(quantizing, "BLOCK_VALUES", 100 * 64)
    monkeypatch.setattr(quantizing, "_FILE", 1 << 15)
    quantize(source, folder, 64)
    given, made = SourceFolder(source), SourceFolder(folder)
    assert made.config == given.config | {"quantization_config": {"quant_method": "ouzel_w4a16", "group_size": 64}}
    assert (folder / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    # 160 is a multiple of 32 alone.
    for module, group in (("model.embedding", 64), ("model.layers.1.mlp.down_proj", 32)):
        grid = from_portable(*(made[f"{module}.{part}"] for part in ("qweight", "scales", "offsets")))
        expected = asymmetric(given[f"{module}.weight"], group)
        assert grid.group == group
        assert torch.equal(grid.dequantize(), expected.dequantize())
        assert f"{module}.weight" not in made
    for name in ("model.norm.weight", "model.layers.0.self_attn.g_proj.weight"):
        assert torch.equal(made[name], given[name])


def test_what_a_layer_is_given_makes_its_outputs_nearer(tmp_path: Path) -> None:
    source, module = make_checkpoint(tmp_path / "source", SMALL), "model.layers.0.mlp.gate_proj"
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(400, 64, generator=random) @ torch.randn(64, 64, generator=random)
    collector = Collector(second_moment=True)
    collector.add(inputs)
    quantize(source, tmp_path / "nearest", 32)
    quantize(source, tmp_path / "calibrated", 32, {module: collector.activations()})
    wanted = SourceFolder(source)[f"{module}.weight"].float()

    def lost(folder: str, name: str) -> float:
        made = SourceFolder(tmp_path / folder)
        grid = from_portable(*(made[f"{name}.{part}"] for part in ("qweight", "scales", "offsets")))
        return float((inputs @ (wanted - grid.dequantize()).t()).square().mean())

    assert lost("calibrated", module) < 0.7 * lost("nearest", module)
    # Of this one nothing is known.
    other = "model.layers.1.mlp.gate_proj.qweight"
    assert torch.equal(SourceFolder(tmp_path / "calibrated")[other], SourceFolder(tmp_path / "nearest")[other])


def test_what_it_will_take_in_memory_is_known_either_way(tmp_path: Path) -> None:
    source, folder = make_checkpoint(tmp_path / "source", TINY), tmp_path / "quantized"
    quantize(source, folder, 64)
    at_load, before = read_checkpoint(source, 2, 64), read_checkpoint(folder, 2, 64)
    assert at_load.weights_bytes == before.weights_bytes < read_checkpoint(source, 2).weights_bytes / 3
    assert (at_load.quantization, before.quantization) == (None, "ouzel_w4a16")


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    source = make_checkpoint(tmp_path / "source", SMALL)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    with pytest.raises(OutputError, match="there exists already"):
        quantize(source, tmp_path / "there")


def test_a_quantized_checkpoint_is_refused(tmp_path: Path) -> None:
    source = make_checkpoint(tmp_path / "source", SMALL)
    quantize(source, tmp_path / "once")
    with pytest.raises(CheckpointError, match=r"once is quantized already \(ouzel_w4a16\)"):
        quantize(tmp_path / "once", tmp_path / "twice")
    assert not (tmp_path / "twice").exists()


def test_widths_that_no_group_divides_are_refused(tmp_path: Path) -> None:
    source = make_checkpoint(
        tmp_path / "source", Geometry(layers=1, hidden=64, inner=80, heads=2, kv_heads=1, head_size=32, vocabulary=512)
    )
    with pytest.raises(ConfigError, match=r"mlp.down_proj.weight: a layer of 80 inputs"):
        quantize(source, tmp_path / "quantized")
    assert not (tmp_path / "quantized").exists()


def test_matrices_that_are_unknown_are_refused(tmp_path: Path) -> None:
    source = make_checkpoint(tmp_path / "source", SMALL)
    file = source / "model-00002-of-00004.safetensors"
    router = {"model.layers.0.mlp.gate.weight": torch.zeros(4, 64)}
    save_file(load_file(file) | router, file, metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"mlp.gate.weight \[4, 64\] is unknown here"):
        quantize(source, tmp_path / "quantized")


def test_the_command(tmp_path: Path) -> None:
    source = make_checkpoint(tmp_path / "source", SMALL)
    done = CliRunner().invoke(app, ["quantize", str(source), str(tmp_path / "quantized"), "--group", "32"])
    assert done.exit_code == 0, done.output
    config = json.loads((tmp_path / "quantized" / "config.json").read_text())
    assert config["quantization_config"]["group_size"] == 32
    refused = CliRunner().invoke(app, ["quantize", str(source), str(tmp_path / "other"), "--group", "48"])
    assert refused.exit_code != 0 and "48 is not one of 128, 64, 32" in refused.output
