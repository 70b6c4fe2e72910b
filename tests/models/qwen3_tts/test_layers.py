from __future__ import annotations

import copy
import math

import torch

from ouzel.models.qwen3_tts.config import BackboneConfig
from ouzel.models.qwen3_tts.fused import fuse
from ouzel.models.qwen3_tts.layers import Backbone, RMSNorm, Rope, rotate

CONFIG = BackboneConfig(
    hidden_size=24,
    intermediate_size=40,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    rms_norm_eps=1e-6,
    rope_theta=1e4,
    max_position_embeddings=64,
)


def backbone() -> Backbone:
    torch.manual_seed(0)
    model = Backbone(CONFIG)
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            parameter.data.uniform_(0.5, 1.5)
    return model


def test_norm_takes_its_variance_in_float32() -> None:
    norm = RMSNorm(512, 1e-6).bfloat16()
    x = 300 * torch.randn(3, 512, generator=torch.Generator().manual_seed(0)).bfloat16()
    exact = x.double() / x.double().square().mean(-1, keepdim=True).sqrt()
    assert norm(x).dtype == torch.bfloat16
    torch.testing.assert_close(norm(x).double(), exact, rtol=2**-8, atol=0)


def test_rope_depends_on_distance_alone() -> None:
    cos, sin = Rope(8, 1e4).tables(40, torch.empty(0))
    q, k = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))

    def score(i: int, j: int) -> float:
        return float(rotate(q, cos[i, 0], sin[i, 0]) @ rotate(k, cos[j, 0], sin[j, 0]))

    assert abs(score(7, 3) - score(34, 30)) < 1e-5
    assert abs(score(7, 3) - score(7, 4)) > 1e-3


def test_rope_turns_the_pairs_that_lie_half_a_head_apart() -> None:
    cos, sin = Rope(8, 1e4).tables(2, torch.empty(0))
    turned = rotate(torch.eye(8)[0], cos[1, 0], sin[1, 0])
    expected = torch.zeros(8)
    expected[0], expected[4] = math.cos(1), math.sin(1)
    torch.testing.assert_close(turned, expected)


def test_tables_made_while_serving_do_for_training() -> None:
    model = backbone()
    with torch.inference_mode():
        model(torch.randn(1, 3, 24))
    model(torch.randn(1, 3, 24)).sum().backward()


def test_gradients_reach_every_parameter() -> None:
    model = backbone()
    model(torch.randn(2, 5, 24)).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def test_later_rows_are_not_seen() -> None:
    model = backbone()
    rows = torch.randn(1, 6, 24)
    changed = rows.clone()
    changed[0, 4:] = 0
    assert torch.equal(model(rows)[:, :4], model(changed)[:, :4])


def test_a_mask_hides_rows() -> None:
    model = backbone()
    rows = torch.randn(1, 5, 24)
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    torch.testing.assert_close(model(rows, mask), model(rows))
    mask[:, 0] = False
    mask[0, 0] = True
    assert not torch.allclose(model(rows, mask)[0, 1:], model(rows)[0, 1:], atol=1e-3)


@torch.inference_mode()
def test_fused_layers_compute_the_same() -> None:
    model = backbone()
    rows = torch.randn(2, 7, 24)
    expected = model(rows)
    fused = copy.deepcopy(model)
    fuse(fused)
    torch.testing.assert_close(fused(rows), expected, rtol=1e-5, atol=1e-5)
    assert {name for name, _ in fused.named_parameters() if "layers.0" in name} == {
        "layers.0.input_layernorm.weight",
        "layers.0.self_attn.qkv_proj.weight",
        "layers.0.self_attn.qk_norm",
        "layers.0.self_attn.o_proj.weight",
        "layers.0.post_attention_layernorm.weight",
        "layers.0.mlp.gate_up_proj.weight",
        "layers.0.mlp.down_proj.weight",
    }
