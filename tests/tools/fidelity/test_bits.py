from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType
from safetensors.torch import save_file
from tiny_gguf import HEADS, HIDDEN, INNER, KV_HEADS, LAYERS, WORDS, tensors, write_gguf
from tiny_llama import write_llama

from ouzel.errors import CheckpointError
from ouzel.tools.fidelity.bits import folder_size, gguf_size


def test_a_tied_embedding_is_read_as_the_head(tmp_path: Path) -> None:
    size = folder_size(write_llama(tmp_path / "tiny"))
    assert size.bits_per_weight == 32
    # [vocabulary, 64], and per layer q, k, v, o, and three of the inner width
    vocabulary = 103
    assert size.read_weights == 64 * (vocabulary + 2 * (64 + 32 + 32 + 64 + 3 * 128))
    assert size.stored_bytes == size.read_bytes + 4 * 64 * 5  # norms


def test_codes_scales_and_zeros_count_and_an_embedding_beside_a_head_does_not(tmp_path: Path) -> None:
    codes = {"lm_head.qweight": torch.zeros(64 // 8, 32, dtype=torch.int32)}
    scales = {"lm_head.scales": torch.zeros(2, 32, dtype=torch.float16)}
    zeros = {"lm_head.qzeros": torch.zeros(2, 4, dtype=torch.int32)}
    whole = {"model.embed_tokens.weight": torch.zeros(32, 64), "model.norm.weight": torch.zeros(64)}
    gate = {"model.layers.0.self_attn.g_proj.weight": torch.zeros(4, 64, dtype=torch.bfloat16)}
    save_file({**codes, **scales, **zeros, **whole}, tmp_path / "a.safetensors")
    save_file(gate, tmp_path / "b.safetensors")
    size = folder_size(tmp_path)
    assert size.read_weights == 64 * 32 + 4 * 64
    assert size.read_bytes == 64 * 32 // 2 + 2 * 32 * 2 + 2 * 4 * 4 + 4 * 64 * 2
    assert size.bits_per_weight == pytest.approx(8 * 1696 / 2304)
    assert size.stored_bytes == size.read_bytes + 4 * 32 * 64 + 4 * 64


def test_a_gguf_is_counted_the_same_way(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", tensors(), packed=GGMLQuantizationType.Q8_0)
    size = gguf_size(file)
    rows = HIDDEN + HIDDEN // HEADS * KV_HEADS * 2 + HIDDEN
    assert size.read_weights == HIDDEN * (len(WORDS) + LAYERS * (rows + 3 * INNER))
    assert size.bits_per_weight == 8.5


def test_a_gguf_with_a_head_of_its_own_does_not_read_its_embedding(tmp_path: Path) -> None:
    weights = tensors()
    weights["output.weight"] = weights["token_embd.weight"]
    tied, untied = (write_gguf(tmp_path / f"{n}.gguf", w) for n, w in enumerate((tensors(), weights)))
    assert gguf_size(untied).read_weights == gguf_size(tied).read_weights
    assert gguf_size(untied).stored_bytes > gguf_size(tied).stored_bytes


@pytest.mark.parametrize(("files", "message"), [({}, "has no safetensors"), ({"x.safetensors": b"\5"}, "is torn")])
def test_a_folder_without_weights_is_refused(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(CheckpointError, match=message):
        folder_size(tmp_path)
