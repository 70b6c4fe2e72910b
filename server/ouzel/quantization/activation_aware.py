"""Activation-aware scaling: inputs that carry much get a finer grid (AWQ, Lin et al. 2023, arXiv 2306.00978).

Multiplying a weight's input by s and dividing the activation by s changes nothing before quantization; after it, the
error of that input is divided by about s. With s = |x|^alpha, one number is searched for.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ouzel.quantization.activations import Activations
from ouzel.quantization.integer_zero import integer_zero

__all__ = ["input_scale"]

_ALPHAS = tuple(step / 10 for step in range(11))
#: outputs by which the candidates are compared; more say the same
_COMPARED_ROWS = 4096
#: of the mean: an input that is all but silent isn't scaled down without end
_LEAST = 1e-3


def input_scale(weights: Sequence[Tensor], seen: Activations, group: int, *, channels: Tensor | None = None) -> Tensor:
    """The factor of each channel with which layers that read the same activations lose least of their outputs.

    :param weights: [N, K] each
    :param channels: [K], the channel that each input comes from, where several inputs share one; else they are the same
    :return: [C] float32, 1 where nothing is gained
    """
    size = len(seen.mean_abs)
    channels = torch.arange(size) if channels is None else channels
    count = int(channels.max()) + 1
    loud = torch.zeros(count).index_add_(0, channels, seen.mean_abs) / torch.bincount(channels)
    loud = loud.clamp(min=float(loud.mean()) * _LEAST + 1e-12)
    samples = [weight[:: max(1, len(weight) // _COMPARED_ROWS)].float() for weight in weights]
    best, found = float("inf"), torch.ones(count)
    for alpha in _ALPHAS:
        scale = loud**alpha
        scale = scale / (scale.amax() * scale.amin()).sqrt()
        lost = sum(_lost(sample, seen.rows, scale[channels], group) for sample in samples)
        if lost < best:
            best, found = lost, scale
    return found


def _lost(weight: Tensor, rows: Tensor, scale: Tensor, group: int) -> float:
    """Σ of the squared differences in the outputs."""
    # weight: [N, K] float32, rows: [M, K], scale: [K]
    value = integer_zero(weight * scale, group, search=False).dequantize() / scale
    return float((rows @ (value - weight).t()).square().sum())
