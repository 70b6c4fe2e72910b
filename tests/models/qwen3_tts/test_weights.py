from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from ouzel.errors import CheckpointError
from ouzel.models.qwen3_tts.weights import fill, load_tensors, take

TENSORS = {"a.weight": torch.arange(6.0).view(2, 3), "a.bias": torch.ones(2), "b.weight": torch.zeros(1)}


def shard(folder: Path, placed: dict[str, str]) -> Path:
    for file in set(placed.values()):
        save_file({key: TENSORS[key] for key, place in placed.items() if place == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    return folder


def test_single_and_sharded_files_give_the_same(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "model.safetensors")
    single = load_tensors(tmp_path)
    sharded = load_tensors(shard(tmp_path, {"a.weight": "1.safetensors", "a.bias": "2.safetensors"}))
    assert single.keys() == TENSORS.keys()
    assert sharded.keys() == {"a.weight", "a.bias"}
    assert torch.equal(single["a.weight"], sharded["a.weight"])


def test_a_prefix_selects_and_is_cut_off(tmp_path: Path) -> None:
    save_file(TENSORS, tmp_path / "model.safetensors")
    assert load_tensors(tmp_path, "a.").keys() == {"weight", "bias"}
    assert load_tensors(tmp_path, "a.", without=("a.b",)).keys() == {"weight"}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"model\.safetensors is missing"):
        load_tensors(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    shard(tmp_path, {"a.weight": "1.safetensors"})
    (tmp_path / "1.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"1\.safetensors is missing"):
        load_tensors(tmp_path)


def test_a_shard_without_what_the_index_promises_is_named(tmp_path: Path) -> None:
    shard(tmp_path, {"a.weight": "1.safetensors"})
    index = {"weight_map": {"a.weight": "1.safetensors", "lost": "1.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match=r"1\.safetensors: lost is missing"):
        load_tensors(tmp_path)


@pytest.mark.parametrize("kept", [0, 4, 40, -1])
def test_a_torn_file_is_named(tmp_path: Path, kept: int) -> None:
    file = tmp_path / "model.safetensors"
    save_file(TENSORS, file)
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match=r"model\.safetensors is torn"):
        load_tensors(tmp_path)


def test_take_names_what_is_missing_or_of_another_shape() -> None:
    with pytest.raises(CheckpointError, match=r"voice: c is missing, expected shape \[4\]"):
        take(TENSORS, "c", [4], source="voice")
    with pytest.raises(CheckpointError, match=r"voice: a\.bias has shape \[2\], expected \[3\]"):
        take(TENSORS, "a.bias", [3], source="voice")
    assert take(TENSORS, "a.bias", [2], source="voice") is TENSORS["a.bias"]


def test_fill_converts_to_the_asked_dtype() -> None:
    layer = nn.Linear(3, 2)
    half = {"weight": TENSORS["a.weight"].bfloat16(), "bias": TENSORS["a.bias"].half()}
    fill(layer, half, source="voice", dtype=torch.float32)
    assert torch.equal(layer.weight, TENSORS["a.weight"])
    assert layer.bias.dtype == torch.float32


def test_fill_refuses_a_tensor_that_nobody_waits_for() -> None:
    tensors = {"weight": TENSORS["a.weight"], "bias": TENSORS["a.bias"], "third": torch.ones(1)}
    with pytest.raises(CheckpointError, match="voice: third is not expected here"):
        fill(nn.Linear(3, 2), tensors, source="voice", dtype=torch.float32)
