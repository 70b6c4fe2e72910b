from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from numpy.typing import NDArray
from safetensors.torch import load_file
from tiny_gguf import HEADS, HIDDEN, KV_HEADS, LAYERS, TEMPLATE, WORDS, tensors, write_gguf
from tokenizers import Tokenizer

from ouzel.errors import CheckpointError
from ouzel.tools.gguf_convert import convert

WIDTH = HIDDEN // HEADS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    there = tmp_path_factory.mktemp("converted")
    convert(write_gguf(there / "tiny.gguf", tensors()), there / "model", sampling={"temperature": 0.2})
    return there / "model"


def read(path: Path) -> dict[str, object]:
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def bf16(values: NDArray[np.float32]) -> torch.Tensor:
    return torch.tensor(values).to(torch.bfloat16)


def test_each_weight_is_there_once_in_bfloat16(folder: Path) -> None:
    found, given = load_file(folder / "model.safetensors"), tensors()
    assert len(found) == len(given) == 2 + 9 * LAYERS
    assert {tensor.dtype for tensor in found.values()} == {torch.bfloat16}
    for ours, theirs in {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "model.layers.1.self_attn.v_proj": "blk.1.attn_v",
        "model.layers.1.self_attn.o_proj": "blk.1.attn_output",
        "model.layers.0.mlp.down_proj": "blk.0.ffn_down",
        "model.layers.0.mlp.gate_proj": "blk.0.ffn_gate",
        "model.layers.0.input_layernorm": "blk.0.attn_norm",
        "model.layers.0.post_attention_layernorm": "blk.0.ffn_norm",
    }.items():
        assert torch.equal(found[f"{ours}.weight"], bf16(given[f"{theirs}.weight"])), ours


def turned(rows: NDArray[np.float64], position: int, *, pairs: bool) -> NDArray[np.float64]:
    """Rotary embedding of [heads, width], over neighbours as llama.cpp has it, or over halves as Hugging Face does."""
    angle = position * 10_000.0 ** (-2 * np.arange(WIDTH // 2) / WIDTH)
    first, second = (rows[:, ::2], rows[:, 1::2]) if pairs else np.split(rows, 2, axis=1)
    out = [first * np.cos(angle) - second * np.sin(angle), first * np.sin(angle) + second * np.cos(angle)]
    return np.concatenate(out, axis=1)


def test_attention_is_the_same_under_either_rotation(folder: Path) -> None:
    found, given = load_file(folder / "model.safetensors"), tensors()
    x = np.random.default_rng(1).normal(size=HIDDEN)
    scores = []
    for pairs in (True, False):
        rows = []
        for name, heads, position in (("q", HEADS, 9), ("k", KV_HEADS, 4)):
            theirs = bf16(given[f"blk.0.attn_{name}.weight"])
            weight = theirs if pairs else found[f"model.layers.0.self_attn.{name}_proj.weight"]
            rows.append(turned((weight.double().numpy() @ x).reshape(heads, WIDTH), position, pairs=pairs))
        queries, keys = rows
        scores.append((queries * keys.repeat(HEADS // KV_HEADS, axis=0)).sum(axis=1))
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-9)
    assert np.abs(scores[0]).min() > 1e-3


@pytest.mark.parametrize("packed", [GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q8_0])
def test_packed_weights_are_unpacked(tmp_path: Path, packed: GGMLQuantizationType) -> None:
    given = tensors()
    convert(write_gguf(tmp_path / "tiny.gguf", given, packed=packed), tmp_path / "model")
    found = load_file(tmp_path / "model/model.safetensors")["model.layers.0.mlp.up_proj.weight"]
    values = given["blk.0.ffn_up.weight"]
    assert torch.equal(found, bf16(dequantize(quantize(values, packed), packed)))
    assert np.abs(found.float().numpy() - values).max() < 0.3


def test_the_config_is_a_llamas(folder: Path) -> None:
    config = read(folder / "config.json")
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert (config["hidden_size"], config["head_dim"], config["vocab_size"]) == (HIDDEN, WIDTH, len(WORDS))
    assert (config["rms_norm_eps"], config["rope_theta"], config["max_position_embeddings"]) == (1e-5, 1e4, 128)
    assert config["tie_word_embeddings"] is True
    assert read(folder / "generation_config.json") == {"bos_token_id": 1, "eos_token_id": 0, "temperature": 0.2}
    assert read(folder / "tokenizer_config.json")["chat_template"] == TEMPLATE


def test_a_head_of_its_own_is_kept(tmp_path: Path) -> None:
    weights = tensors()
    weights["output.weight"] = 2 * weights["token_embd.weight"]
    convert(write_gguf(tmp_path / "tiny.gguf", weights), tmp_path / "model")
    found = load_file(tmp_path / "model/model.safetensors")
    assert torch.equal(found["lm_head.weight"], 2 * found["model.embed_tokens.weight"])
    assert read(tmp_path / "model/config.json")["tie_word_embeddings"] is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the the", ["the", "Ġthe"]),
        ("12", ["1", "2"]),  # each digit alone, whatever the merges say
        ("<im>the<end>", ["<im>", "the", "<end>"]),
    ],
)
def test_the_tokenizer(folder: Path, text: str, words: list[str]) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    encoded = tokenizer.encode(text)
    assert encoded.tokens == words
    assert tokenizer.decode(encoded.ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": "mamba"}, "general.architecture is 'mamba'; known here: llama"),
        ({"pre": "llama-bpe"}, "tokenizer.ggml.pre is 'llama-bpe'; known here: smollm"),
    ],
)
def test_what_is_unknown_is_named(tmp_path: Path, change: dict[str, str], message: str) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", tensors(), **change)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match=message):
        convert(path, tmp_path / "model")


def test_a_tensor_without_a_place_is_named(tmp_path: Path) -> None:
    weights = tensors() | {"rope_freqs.weight": np.ones(8, np.float32)}
    with pytest.raises(CheckpointError, match="tensor 'rope_freqs.weight' has no place"):
        convert(write_gguf(tmp_path / "tiny.gguf", weights), tmp_path / "model")


@pytest.mark.parametrize("data", [b"", b"no GGUF, but long enough to be read as one " * 9])
def test_another_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.gguf").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"x\.gguf is torn or no GGUF"):
        convert(tmp_path / "x.gguf", tmp_path / "model")


def test_a_torn_file_is_refused(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", tensors())
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(CheckpointError, match="is torn"):
        convert(path, tmp_path / "model")
