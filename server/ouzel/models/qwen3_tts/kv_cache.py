"""Keys and values of one request, in one contiguous buffer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ouzel.errors import EngineError
from ouzel.models.qwen3_tts.config import BackboneConfig

__all__ = ["KVCache"]


class KVCache:
    """One request's slot: [layers, 2, kv_heads, capacity, head_dim], of which `length` positions are filled."""

    def __init__(self, config: BackboneConfig, capacity: int, dtype: torch.dtype = torch.float32) -> None:
        self.buffer = torch.empty(
            config.num_hidden_layers, 2, config.num_key_value_heads, capacity, config.head_dim, dtype=dtype
        )
        self.capacity = capacity
        self.length = 0
        self._layers = [(layer[0], layer[1]) for layer in self.buffer]

    def reserve(self, rows: int) -> None:
        """Raise `EngineError` unless `rows` more positions fit."""
        if self.length + rows > self.capacity:
            raise EngineError(f"KV cache holds {self.length} of {self.capacity} positions, {rows} more don't fit")

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store the rows at `length` and let each see what lies before it and itself; `length` stays."""
        # q: [P, heads, D]; k, v: [P, kv_heads, D] -> [P, heads, D]
        start, end = self.length, self.length + len(q)
        keys, values = self._layers[layer]
        keys[:, start:end] = k.transpose(0, 1)
        values[:, start:end] = v.transpose(0, 1)
        if len(q) == 1:
            return _one_row(q, keys[None, :, :end], values[None, :, :end])
        mask = q.new_ones(len(q), end, dtype=torch.bool).tril(start)
        seen = functional.scaled_dot_product_attention(
            q.transpose(0, 1)[None], keys[None, :, :end], values[None, :, :end], mask, enable_gqa=True
        )
        return seen[0].transpose(0, 1)


def _one_row(q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    # q: [1, heads, D]; keys, values: [1, kv_heads, T, D]. The heads that share a key stand where rows would.
    grouped = q.view(1, keys.shape[1], -1, q.shape[-1])
    return functional.scaled_dot_product_attention(grouped, keys, values).view(q.shape)
