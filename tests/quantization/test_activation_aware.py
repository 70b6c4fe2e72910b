from __future__ import annotations

import torch
from torch import Tensor

from ouzel.quantization.activation_aware import input_scale
from ouzel.quantization.activations import Activations, Collector
from ouzel.quantization.integer_zero import integer_zero


def some(rows: int, width: int, seed: int) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def seen(x: Tensor) -> Activations:
    collector = Collector()
    collector.add(x)
    return collector.activations()


def lost(weight: Tensor, x: Tensor, scale: Tensor) -> float:
    value = integer_zero(weight * scale, 32, search=False).dequantize() / scale
    return float((x @ (value - weight).T).square().sum())


def test_loud_inputs_get_larger_factors_and_less_is_lost() -> None:
    weight, loudness = some(64, 128, 1), torch.logspace(-1.5, 1.5, 128)[torch.randperm(128)]
    x = some(200, 128, 2) * loudness
    scale = input_scale([weight], seen(x), 32)
    assert (scale[loudness.argsort()].diff() > -0.2 * scale.max()).all()
    assert scale[loudness.argmax()] > 3 * scale[loudness.argmin()]
    assert lost(weight, x, scale) < 0.6 * lost(weight, x, torch.ones(128))


def test_inputs_of_one_channel_get_one_factor() -> None:
    weight, channels = some(32, 64, 1), torch.arange(64) % 32
    x = some(100, 64, 2) * torch.logspace(-1, 1, 64)
    scale = input_scale([weight], seen(x), 32, channels=channels)
    assert scale.shape == (32,)
    mean = seen(x).mean_abs.view(2, 32).mean(0)
    assert scale.argsort().tolist() == mean.argsort().tolist()


def test_an_input_that_is_never_used_has_a_factor_too() -> None:
    x = some(100, 64, 2)
    x[:, 5] = 0
    scale = input_scale([some(32, 64, 1)], seen(x), 32)
    assert torch.isfinite(scale).all() and (scale > 0).all()
    assert (input_scale([some(32, 64, 1)], seen(torch.zeros(4, 64)), 32) == 1).all()


def test_scaled_activations_are_those_of_scaled_inputs() -> None:
    x, scale = some(300, 16, 3), torch.linspace(0.5, 4, 16)
    one, other = (Collector(second_moment=True) for _ in range(2))
    one.add(x)
    other.add(x / scale)
    for part in ("mean_square", "mean_abs", "rows", "second_moment"):
        first, second = getattr(one.activations().scaled(scale), part), getattr(other.activations(), part)
        assert torch.allclose(first, second, atol=1e-5), part
