"""Writes a Spark-X2.5 checkpoint as a GGUF of floating-point weights, for llama.cpp (architecture `spark2_5`).

The `gguf` package has no table of Spark's names; they are those that llama.cpp reads. No tokenizer is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from gguf import GGUFWriter

from ouzel.tools.folders import SourceFolder
from ouzel.tools.gguf_tensors import write_tensors

__all__ = ["write_gguf"]

#: published name → llama.cpp's, both without `.weight`
MODEL = {"model.embedding": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_k_v_proj": "attn_qkv",
    "self_attn.g_proj": "attn_gate",
    "self_attn.out_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(folder: Path, file: Path, kind: str = "F32") -> Path:
    """Write the checkpoint in `folder` to `file`, its matrices as F32, F16 or BF16; one tensor is in memory."""
    source = SourceFolder(folder)
    writer = GGUFWriter(file, "spark2_5")
    _add_settings(writer, source.config)
    write_tensors(writer, source, _renamed, kind)
    return file


def _add_settings(writer: GGUFWriter, config: Mapping[str, Any]) -> None:
    full, sliding = (config["rope_parameters"][f"{kind}_attention"] for kind in ("full", "sliding"))
    size = config["head_dim"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_array(
        "spark2_5.attention.sliding_window_pattern", [kind == "sliding_attention" for kind in config["layer_types"]]
    )
    writer.add_rope_freq_base(full["rope_theta"])
    writer.add_float32("spark2_5.rope.freq_base_swa", sliding["rope_theta"])
    writer.add_rope_dimension_count(int(size * full["partial_rotary_factor"]))
    writer.add_uint32("spark2_5.rope.dimension_count_swa", int(size * sliding["partial_rotary_factor"]))
    writer.add_tokenizer_model("no_vocab")


def _renamed(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in MODEL:
        return f"{MODEL[stem]}.weight"
    number, part = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{number}.{LAYER[part]}.weight"


def main(
    folder: Annotated[Path, typer.Argument(help="A Spark checkpoint.")],
    file: Annotated[Path, typer.Argument(help="The GGUF to write: four bytes a weight.")],
) -> None:
    """Write a Spark-X2.5 checkpoint as a GGUF, to compare with llama.cpp."""
    write_gguf(folder, file)


if __name__ == "__main__":
    typer.run(main)
