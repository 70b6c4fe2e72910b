from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from ouzel.tools.make_checkpoint import TINY, make_checkpoint

pytestmark = pytest.mark.llm  # `gguf` comes with vLLM


def test_llama_cpp_finds_all_that_it_reads(tmp_path: Path) -> None:
    from gguf import GGUFReader

    from ouzel.tools.spark_gguf import write_gguf

    folder = make_checkpoint(tmp_path / "spark", replace(TINY, layers=5, vocabulary=512, tied=False))
    reader = GGUFReader(write_gguf(folder, tmp_path / "spark.gguf"))

    said = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert said.pop("spark2_5.attention.layer_norm_rms_epsilon") == pytest.approx(1e-6)
    assert said == {
        "general.architecture": "spark2_5",
        "spark2_5.context_length": 1 << 20,
        "spark2_5.vocab_size": 512,
        "spark2_5.embedding_length": 256,
        "spark2_5.feed_forward_length": 640,
        "spark2_5.block_count": 5,
        "spark2_5.attention.head_count": 8,
        "spark2_5.attention.head_count_kv": 2,
        "spark2_5.attention.key_length": 64,
        "spark2_5.attention.value_length": 64,
        "spark2_5.attention.sliding_window": 32,
        "spark2_5.attention.sliding_window_pattern": [True, True, True, False, True],
        "spark2_5.rope.freq_base": 5000000,
        "spark2_5.rope.freq_base_swa": 10000,
        "spark2_5.rope.dimension_count": 16,
        "spark2_5.rope.dimension_count_swa": 64,
        "tokenizer.ggml.model": "no_vocab",
    }

    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    block = ("attn_norm", "attn_qkv", "attn_gate", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
    names = {f"blk.{number}.{name}.weight" for number in range(5) for name in block}
    assert tensors.keys() == names | {"token_embd.weight", "output_norm.weight", "output.weight"}
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    name = "model.layers.3.mlp.down_proj.weight"
    with safe_open(folder / index[name], "pt") as weights:
        expected = weights.get_tensor(name).float().numpy()
    assert tensors["blk.3.ffn_down.weight"].dtype == np.float32
    assert np.array_equal(tensors["blk.3.ffn_down.weight"], expected)
