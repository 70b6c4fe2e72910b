"""A Llama-style model in small, written as llama.cpp writes one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from numpy.typing import NDArray

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS = 2, 64, 96, 4, 2
CONTROL, NORMAL = 3, 1
LETTERS = [chr(code) for code in range(ord("!"), ord("~") + 1)]
MERGES = ["t h", "th e", "Ġ the", "1 2"]
WORDS = ["<end>", "<im>", *LETTERS, "Ġ", "Ċ", "th", "the", "Ġthe", "12"]
TEMPLATE = "{% for message in messages %}<im>{{ message['content'] }}<end>{% endfor %}"

SHAPES = {
    "attn_norm": (HIDDEN,),
    "attn_q": (HIDDEN, HIDDEN),
    "attn_k": (HIDDEN // HEADS * KV_HEADS, HIDDEN),
    "attn_v": (HIDDEN // HEADS * KV_HEADS, HIDDEN),
    "attn_output": (HIDDEN, HIDDEN),
    "ffn_norm": (HIDDEN,),
    "ffn_gate": (INNER, HIDDEN),
    "ffn_up": (INNER, HIDDEN),
    "ffn_down": (HIDDEN, INNER),
}


def tensors() -> dict[str, NDArray[np.float32]]:
    """Random weights under llama.cpp's names."""
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(WORDS), HIDDEN), "output_norm": (HIDDEN,)}
    for layer in range(LAYERS):
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in SHAPES.items()}
    chance = np.random.default_rng(0)
    return {f"{name}.weight": chance.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def write_gguf(
    path: Path,
    weights: dict[str, NDArray[np.float32]],
    *,
    packed: GGMLQuantizationType | None = None,
    architecture: str = "llama",
    pre: str = "smollm",
) -> Path:
    writer = GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(WORDS)
    writer.add_token_types([CONTROL, CONTROL, *[NORMAL] * (len(WORDS) - 2)])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    writer.add_chat_template(TEMPLATE)
    for name, values in weights.items():
        if packed is not None and values.ndim == 2:
            writer.add_tensor(name, quantize(values, packed), raw_dtype=packed)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
