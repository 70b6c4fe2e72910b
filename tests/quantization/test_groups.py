"""Which weights of a checkpoint are put into four bits."""

from __future__ import annotations

import pytest

from ouzel.quantization.groups import is_packed


@pytest.mark.parametrize(
    ("name", "shape", "packed"),
    [
        ("model.layers.0.self_attn.q_proj.weight", (64, 64), True),
        ("model.layers.0.self_attn.q_k_v_proj.weight", (96, 64), True),
        ("model.embedding.weight", (512, 64), True),
        ("lm_head.weight", (512, 64), True),
        ("model.layers.0.self_attn.g_proj.weight", (8, 64), False),
        ("model.layers.0.self_attn.q_proj.bias", (64,), False),
        ("model.norm.weight", (64,), False),
        ("model.layers.0.mlp.gate.weight", (8, 64), False),
    ],
)
def test_linear_layers_and_embeddings_alone(name: str, shape: tuple[int, ...], packed: bool) -> None:
    assert is_packed(name, shape) is packed
