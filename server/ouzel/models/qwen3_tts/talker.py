"""The talker: text and codec embeddings in, hidden states and logits of codebook 0 out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from ouzel.models.qwen3_tts.config import TalkerConfig
from ouzel.models.qwen3_tts.kv_cache import KVCache
from ouzel.models.qwen3_tts.layers import Backbone

__all__ = ["KVCache", "Talker"]


class TextProjection(nn.Module):
    """Text embeddings to the talker's width."""

    def __init__(self, config: TalkerConfig) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(config.text_hidden_size, config.text_hidden_size)
        self.linear_fc2 = nn.Linear(config.text_hidden_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        # x: [..., text_hidden_size]
        out: Tensor = self.linear_fc2(functional.silu(self.linear_fc1(x)))
        return out


class TalkerModel(Backbone):
    """What the checkpoint calls `talker.model`."""

    def __init__(self, config: TalkerConfig) -> None:
        super().__init__(config)
        self.text_embedding = nn.Embedding(config.text_vocab_size, config.text_hidden_size)
        self.codec_embedding = nn.Embedding(config.vocab_size, config.hidden_size)


class Talker(nn.Module):
    """The talker without its code predictor; keys are the published ones without `talker.`."""

    def __init__(self, config: TalkerConfig) -> None:
        super().__init__()
        self.config = config
        self.model = TalkerModel(config)
        self.text_projection = TextProjection(config)
        self.codec_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def text_rows(self, ids: Tensor) -> Tensor:
        """Projected text embeddings."""
        # ids: [N] int64 -> [N, H]
        rows: Tensor = self.text_projection(self.model.text_embedding(ids))
        return rows

    def codec_rows(self, ids: Tensor) -> Tensor:
        """Embeddings of codebook-0 codes and of the codec's special ids."""
        # ids: [N] int64 -> [N, H]
        rows: Tensor = self.model.codec_embedding(ids)
        return rows

    def forward(self, rows: Tensor, mask: Tensor | None = None) -> Tensor:
        """Whole sequences, differentiable; hidden states after the final norm.

        `mask` as in scaled_dot_product_attention, broadcastable to [B, heads, T, T]; None for causal, which also does
        for sequences padded on the right.
        """
        # rows: [B, T, H] -> [B, T, H]
        hidden: Tensor = self.model(rows, mask)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of codebook 0."""
        # hidden: [..., H] -> [..., V]
        logits: Tensor = self.codec_head(hidden)
        return logits

    @torch.inference_mode()
    def prefill(self, rows: Tensor, cache: KVCache) -> Tensor:
        """Put the next rows of a prompt into `cache` and return the last one's hidden state; pieces may follow.

        Raises `EngineError` when the cache is too small.
        """
        # rows: [P, H] -> [H]
        start, end = cache.length, cache.length + len(rows)
        cache.reserve(len(rows))
        cos, sin = self.model.rope.tables(end, rows)
        rows = self.model.step(rows, cos[start:end], sin[start:end], cache.attend)
        cache.length = end
        hidden: Tensor = self.model.norm(rows[-1])
        return hidden

    @torch.inference_mode()
    def decode(self, rows: Tensor, caches: Sequence[KVCache]) -> Tensor:
        """One step of several requests: row i goes into caches[i]; hidden states after the final norm.

        Raises `EngineError` when a cache is full; then none has changed.
        """
        # rows: [B, H] -> [B, H]
        for cache in caches:
            cache.reserve(1)
        positions = [cache.length for cache in caches]
        cos, sin = self.model.rope.tables(max(positions) + 1, rows)
        rows = self.model.step(rows, cos[positions], sin[positions], partial(_attend_each, caches))
        for cache in caches:
            cache.length += 1
        hidden: Tensor = self.model.norm(rows)
        return hidden


def _attend_each(caches: Sequence[KVCache], layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    # q: [B, heads, D]; k, v: [B, kv_heads, D]
    if len(caches) == 1:
        return caches[0].attend(layer, q, k, v)
    slots = zip(caches, q[:, None], k[:, None], v[:, None], strict=True)
    return torch.cat([cache.attend(layer, *row) for cache, *row in slots])
