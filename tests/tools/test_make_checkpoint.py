from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from ouzel.errors import OutputError, RequestError
from ouzel.tools.make_checkpoint import SPARK_1_7B, TINY, make_checkpoint, random_weight, shapes

SMALL = replace(TINY, layers=5, hidden=64, inner=96, heads=4, kv_heads=2, head_size=16)


def stored(folder: Path) -> dict[str, Tensor]:
    """Every tensor, read by way of the index."""
    found = {}
    for name, file in json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"].items():
        with safe_open(folder / file, "pt") as weights:
            found[name] = weights.get_tensor(name)
    return found


def test_the_published_names_and_shapes(tmp_path: Path) -> None:
    weights = stored(make_checkpoint(tmp_path / "spark", SMALL))
    layer = {
        "input_layernorm": (64,),
        "post_attention_layernorm": (64,),
        "self_attn.q_k_v_proj": (64 + 32 + 32, 64),
        "self_attn.g_proj": (4, 64),
        "self_attn.out_proj": (64, 64),
        "mlp.gate_proj": (96, 64),
        "mlp.up_proj": (96, 64),
        "mlp.down_proj": (64, 96),
    }
    expected = {f"model.layers.{number}.{name}.weight": shape for number in range(5) for name, shape in layer.items()}
    expected |= {"model.embedding.weight": (1024, 64), "model.norm.weight": (64,)}
    assert {name: tuple(weight.shape) for name, weight in weights.items()} == expected
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}


def test_an_untied_head_is_stored(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "spark", replace(SMALL, tied=False))
    assert stored(folder)["lm_head.weight"].shape == (1024, 64)
    assert json.loads((folder / "config.json").read_text())["tie_word_embeddings"] is False


def test_the_geometry_of_the_1_7b() -> None:
    sizes = {name: shape for part in shapes(SPARK_1_7B) for name, shape in part.items()}
    assert sizes["model.layers.27.self_attn.q_k_v_proj.weight"] == (2048 + 512 + 512, 2048)
    assert sizes["model.layers.27.self_attn.g_proj.weight"] == (8, 2048)
    assert sum(torch.Size(shape).numel() for shape in sizes.values()) == 1_707_657_216


def test_every_fourth_layer_sees_everything(tmp_path: Path) -> None:
    config = json.loads((make_checkpoint(tmp_path / "spark", SMALL) / "config.json").read_text())
    sliding, full = "sliding_attention", "full_attention"
    assert config["layer_types"] == [sliding, sliding, sliding, full, sliding]


def test_a_seed_makes_the_same_again(tmp_path: Path) -> None:
    first, again, other = (
        stored(make_checkpoint(tmp_path / name, SMALL, dtype="float32", seed=seed))
        for name, seed in (("first", 1), ("again", 1), ("other", 2))
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_no_two_tensors_are_alike_and_all_are_of_a_size() -> None:
    one, two = (random_weight(name, (200, 400), torch.float32, 0) for name in ("one.weight", "two.weight"))
    assert abs(torch.dot(one.flatten(), two.flatten())) < 5
    assert one.std() == pytest.approx(400**-0.5, rel=0.02)
    norm = random_weight("norm.weight", (400,), torch.float32, 0)
    assert 0.8 <= norm.min() < 0.85
    assert 1.15 < norm.max() <= 1.2


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(OutputError, match="has files already"):
        make_checkpoint(tmp_path, SMALL)
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="can't be written"):
        make_checkpoint(tmp_path / "file" / "spark", SMALL)


def test_a_dtype_that_it_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"float16.*bfloat16, float32"):
        make_checkpoint(tmp_path / "spark", SMALL, dtype="float16")
    assert not (tmp_path / "spark").exists()
