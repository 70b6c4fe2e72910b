"""A linear layer in four bits, and the swap of a module's layers for it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from ouzel.errors import ConfigError
from ouzel.quantization.groups import group_size
from ouzel.quantization.packed_weight import PackedWeight

__all__ = ["FourBitLinear", "quantize_linears"]


class FourBitLinear(nn.Module):
    """What `nn.Linear` does, on a weight in four bits; for inference alone."""

    def __init__(self, source: nn.Linear, group: int) -> None:
        """:raises ConfigError: when the group doesn't divide the layer's width"""
        super().__init__()
        self.in_features, self.out_features = source.in_features, source.out_features
        self._weight = PackedWeight.of(source.weight.detach(), group)
        self.register_buffer("packed", self._weight.packed)
        self.register_buffer("scales", self._weight.scales)
        self.bias = source.bias

    def forward(self, x: Tensor) -> Tensor:
        # x: [..., in_features] -> [..., out_features]
        y = self._weight.linear(x)
        return y if self.bias is None else y + self.bias


def quantize_linears(module: nn.Module, most: int, keep: Callable[[str], bool] = lambda name: False) -> None:
    """Swap the linear layers inside `module`, in place; each gets the largest group up to `most` that divides it.

    :param keep: whether the layer of this name stays as it is
    :raises ConfigError: when none divides a layer's width; it names the layer
    """
    for name, layer in list(module.named_modules()):
        if not isinstance(layer, nn.Linear) or keep(name):
            continue
        try:
            group = group_size(layer.in_features, most)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}", param=error.param) from error
        parent, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(parent), leaf, FourBitLinear(layer, group))
