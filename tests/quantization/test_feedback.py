from __future__ import annotations

import torch
from torch import Tensor

from ouzel.quantization.feedback import with_feedback
from ouzel.quantization.grid import Grid, asymmetric
from ouzel.quantization.symmetric import symmetric

GROUP = 32


def related_inputs(width: int) -> Tensor:
    """[T, K]: a few causes behind all of them."""
    draw = torch.Generator().manual_seed(2)
    causes = torch.randn(2000, width // 4, generator=draw) @ torch.randn(width // 4, width, generator=draw)
    return causes + 0.3 * torch.randn(2000, width, generator=draw)


def choose(part: Tensor, importance: Tensor) -> Grid:
    return symmetric(part, GROUP, importance=importance)


def lost(weight: Tensor, grid: Grid, x: Tensor) -> float:
    return float((x @ (grid.dequantize() - weight).T).square().mean())


def test_less_of_the_outputs_is_lost() -> None:
    weight = torch.randn(48, 128, generator=torch.Generator().manual_seed(1))
    x = related_inputs(128)
    moment = x.T @ x / len(x)
    plain, found = symmetric(weight, GROUP, importance=moment.diagonal()), with_feedback(weight, GROUP, moment, choose)
    assert found.codes.shape == (48, 128) and found.scale.shape == found.zero.shape == (48, 4)
    assert lost(weight, found, x) < 0.5 * lost(weight, plain, x)


def test_inputs_without_relation_are_rounded_as_always() -> None:
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
    found, plain = with_feedback(weight, GROUP, torch.eye(64), choose), symmetric(weight, GROUP)
    assert torch.equal(found.codes, plain.codes)
    assert torch.equal(found.scale, plain.scale)


def test_an_input_that_was_never_used_does_no_harm() -> None:
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
    x = related_inputs(64)
    x[:, :40] = 0
    found = with_feedback(weight, GROUP, x.T @ x / len(x), choose)
    assert torch.isfinite(found.dequantize()).all()
    assert lost(weight, found, x) < lost(weight, symmetric(weight, GROUP), x)


def test_inputs_that_are_all_nothing_are_rounded_as_always() -> None:
    weight = torch.randn(4, 64, generator=torch.Generator().manual_seed(1))
    grid = with_feedback(weight, GROUP, torch.zeros(64, 64), lambda part, _: asymmetric(part, GROUP))
    assert torch.equal(grid.codes, asymmetric(weight, GROUP).codes)
