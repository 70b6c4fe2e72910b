"""Spark-X2.5 in plain fp32 PyTorch, as its published description says it: slow, one sequence, no cache.

It shares no line with the engine's model, so that both would have to be wrong in the same way. Each trait that
separates Spark from a Llama-style decoder can be switched off, to show that a comparison would notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

SLIDING, FULL = "sliding_attention", "full_attention"


@dataclass(frozen=True, slots=True)
class Traits:
    """What may be left out, by name."""

    window: bool = True
    partial_rotary: bool = True
    gate: bool = True
    layer_pattern: bool = True


ALL = Traits()


def logprobs(
    config: Mapping[str, Any], weights: Mapping[str, Tensor], ids: Sequence[int], traits: Traits = ALL, last: int = 0
) -> Tensor:
    """Log-probabilities of the token after each position, or after the `last` of them, [T, V] float32.

    `weights` by their published names; each is read when its layer is reached, and once.
    """
    table = weights["model.embedding.weight"]
    x = F.embedding(torch.tensor(ids), table)
    for number, kind in enumerate(config["layer_types"]):
        prefix = f"model.layers.{number}."
        layer = {name.removeprefix(prefix): weights[name] for name in weights if name.startswith(prefix)}
        x = _layer(config, layer, kind if traits.layer_pattern else SLIDING, x, traits)
    x = _norm(x[-last:], weights["model.norm.weight"], config["rms_norm_eps"])
    head = table if config["tie_word_embeddings"] else weights["lm_head.weight"]
    return (x @ head.T).log_softmax(-1)


def _layer(config: Mapping[str, Any], layer: Mapping[str, Tensor], kind: str, x: Tensor, traits: Traits) -> Tensor:
    # x: [T, H] float32
    eps = config["rms_norm_eps"]
    x = x + _attention(config, layer, kind, _norm(x, layer["input_layernorm.weight"], eps), traits)
    y = _norm(x, layer["post_attention_layernorm.weight"], eps)
    gate, up = (y @ layer[f"mlp.{name}_proj.weight"].T for name in ("gate", "up"))
    exact = 0.5 * gate * (1 + torch.erf(gate / 2**0.5))
    return x + (exact * up) @ layer["mlp.down_proj.weight"].T


def _attention(config: Mapping[str, Any], layer: Mapping[str, Tensor], kind: str, x: Tensor, traits: Traits) -> Tensor:
    # x: [T, H] float32
    heads, kv_heads, size = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    rows = [heads * size, kv_heads * size, kv_heads * size]
    q, k, v = (
        (x @ weight.T).view(len(x), -1, size).transpose(0, 1)
        for weight in layer["self_attn.q_k_v_proj.weight"].split(rows)
    )
    rope = config["rope_parameters"][kind]
    rotated = int(size * (rope["partial_rotary_factor"] if traits.partial_rotary else 1.0))
    q, k = (_rotate(part, rope["rope_theta"], rotated) for part in (q, k))
    hidden = _hidden(len(x), config["sliding_window"] if kind == SLIDING and traits.window else None)
    group = heads // kv_heads
    outputs = []
    for head in range(heads):
        scores = q[head] @ k[head // group].T * size**-0.5
        outputs.append(scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v[head // group])
    if traits.gate:
        gates = torch.sigmoid(x @ layer["self_attn.g_proj.weight"].T)
        outputs = [output * gates[:, head, None] for head, output in enumerate(outputs)]
    return torch.cat(outputs, -1) @ layer["self_attn.out_proj.weight"].T


def _rotate(x: Tensor, theta: float, rotated: int) -> Tensor:
    # x: [heads, T, D] float32; of the first `rotated` dims, those half of them apart turn together
    half = rotated // 2
    # Frequencies and angles are float32, as in transformers: the rounding of an angle grows with the position.
    frequencies = 1 / theta ** (torch.arange(half) / half)
    angles = torch.arange(x.shape[1])[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    first, second, rest = x[..., :half], x[..., half:rotated], x[..., rotated:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -1)


def _hidden(length: int, window: int | None) -> Tensor:
    """Which keys (columns) a query (row) doesn't see; a window counts the query itself. [T, T] bool."""
    distance = torch.arange(length)[:, None] - torch.arange(length)
    return (distance < 0) | (distance >= (window or length))


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    # x: [T, H] float32
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight
