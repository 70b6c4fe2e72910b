"""Linear layers in four bits."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ouzel.errors import ConfigError
from ouzel.quantization.grid import asymmetric
from ouzel.quantization.linear import FourBitLinear, quantize_linears


def test_it_does_what_the_layer_did_on_its_grid() -> None:
    torch.manual_seed(1)
    layer, x = nn.Linear(96, 40).requires_grad_(False), torch.randn(3, 96)
    exact = x @ asymmetric(layer.weight, 32).dequantize().T + layer.bias
    assert torch.allclose(FourBitLinear(layer, 32)(x), exact, atol=2e-2)


def test_layers_are_swapped_in_place() -> None:
    inner = nn.Sequential(nn.Linear(576, 64, bias=False), nn.ReLU())
    module = nn.ModuleDict({"inner": inner, "head": nn.Linear(64, 8)})
    module.requires_grad_(False)
    quantize_linears(module, 128, keep=lambda name: name == "head")
    first = inner[0]
    assert isinstance(first, FourBitLinear) and first.scales.shape[0] == 576 // 64
    assert isinstance(module["head"], nn.Linear)


def test_a_layer_that_no_group_divides_is_named() -> None:
    with pytest.raises(ConfigError, match=r"0: a layer of 100 inputs"):
        quantize_linears(nn.Sequential(nn.Linear(100, 8)), 128)
