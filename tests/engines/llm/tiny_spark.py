"""A small Spark checkpoint with random weights, in the published layout, and the scenarios that it is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from seeded import seeded, seeded_weights

VOCABULARY = 1024
WINDOW = 32

CONFIG: dict[str, Any] = {
    "architectures": ["Spark2_5ForCausalLM"],
    "model_type": "spark2_5",
    "hidden_size": 256,
    "intermediate_size": 640,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": VOCABULARY,
    "sliding_window": WINDOW,
    "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 2,
    "rope_parameters": {
        "full_attention": {"rope_theta": 5000000, "partial_rotary_factor": 0.25},
        "sliding_attention": {"rope_theta": 10000, "partial_rotary_factor": 1.0},
    },
    "headwise_attn_output_gate": True,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 1 << 20,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def config(*, tied: bool) -> dict[str, Any]:
    """The content of config.json."""
    return CONFIG | {"tie_word_embeddings": tied}


def weights(top: Mapping[str, Any]) -> dict[str, Tensor]:
    """Every tensor of the checkpoint, by its published name.

    Queries and keys are four times as large as usual, so that attention picks instead of averaging.
    """
    hidden, inner, size = top["hidden_size"], top["intermediate_size"], top["head_dim"]
    wide, narrow = top["num_attention_heads"] * size, top["num_key_value_heads"] * size
    shapes: dict[str, tuple[int, ...]] = {"model.embedding.weight": (top["vocab_size"], hidden)}
    for number in range(top["num_hidden_layers"]):
        shapes |= {
            f"model.layers.{number}.{name}.weight": shape
            for name, shape in (
                ("input_layernorm", (hidden,)),
                ("post_attention_layernorm", (hidden,)),
                ("self_attn.q_k_v_proj", (wide + 2 * narrow, hidden)),
                ("self_attn.g_proj", (top["num_attention_heads"], hidden)),
                ("self_attn.out_proj", (hidden, wide)),
                ("mlp.gate_proj", (inner, hidden)),
                ("mlp.up_proj", (inner, hidden)),
                ("mlp.down_proj", (hidden, inner)),
            )
        }
    shapes["model.norm.weight"] = (hidden,)
    if not top["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (top["vocab_size"], hidden)
    made = {name: torch.from_numpy(values) for name, values in seeded_weights(shapes).items()}
    for name, weight in made.items():
        if name.endswith("q_k_v_proj.weight"):
            weight[: wide + narrow] *= 2
    return made


def write_checkpoint(folder: Path, *, tied: bool) -> Path:
    """config.json and model.safetensors, without a tokenizer."""
    folder.mkdir(parents=True)
    top = config(tied=tied)
    (folder / "config.json").write_text(json.dumps(top))
    save_file(weights(top), folder / "model.safetensors")
    return folder


def scenarios() -> dict[str, list[int]]:
    """Prompts as token ids: a short one, a tool call (a schema whose keys recur), a context far beyond the window."""
    draw = seeded("scenarios")
    keys = draw.integers(3, VOCABULARY, 24)
    schema = [np.concatenate([keys, draw.integers(3, VOCABULARY, 12)]) for _ in range(8)]
    return {
        "short": draw.integers(3, VOCABULARY, 12).tolist(),
        "tool call": np.concatenate(schema).tolist(),
        "long": draw.integers(3, VOCABULARY, 2465).tolist(),
    }
