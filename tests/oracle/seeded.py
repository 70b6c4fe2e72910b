"""Seeded weights, made alike by the scripts that ask the official package and by the tests that ask ours.

A tensor depends on its name alone. The values leave no trait untested: norms are 1 ± 0.2, LayerScale and gamma are
near 0.5, biases, alpha and beta are not zero, codebooks are N(0, 1).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]


def seeded(name: str, *, seed: int = 0) -> np.random.Generator:
    """A generator of its own for everything that bears this name."""
    return np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))


def seeded_weights(
    shapes: Mapping[str, Shape], *, gains: Mapping[str, float] | None = None, seed: int = 0
) -> dict[str, NDArray[np.float32]]:
    """A non-trivial float32 tensor for every name; `gains` multiplies the tensors that it names."""
    scale = gains or {}
    return {name: _tensor(name, shape, seed) * np.float32(scale.get(name, 1.0)) for name, shape in shapes.items()}


def _tensor(name: str, shape: Shape, seed: int) -> NDArray[np.float32]:
    draw = seeded(name, seed=seed)
    leaf = name.rsplit(".", 1)[-1]
    if leaf == "initialized":
        values = np.ones(shape)
    elif leaf == "cluster_usage":
        values = draw.uniform(0.5, 2.0, shape)
    elif leaf in ("scale", "gamma"):
        values = draw.uniform(0.3, 0.7, shape)
    elif leaf in ("embedding_sum", "embed_sum"):
        values = draw.standard_normal(shape)
    elif leaf in ("bias", "alpha", "beta"):
        values = 0.3 * draw.standard_normal(shape)
    elif len(shape) == 1:
        values = draw.uniform(0.8, 1.2, shape)
    else:
        values = draw.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    return values.astype(np.float32)
