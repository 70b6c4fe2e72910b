"""The code predictor: the talker's hidden state and codebook 0 in, the other codes of the frame out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from ouzel.models.qwen3_tts.config import PredictorConfig
from ouzel.models.qwen3_tts.layers import Backbone
from ouzel.models.qwen3_tts.talker import Talker

__all__ = ["CodePredictor", "SampleGroup"]

# sample(logits [B, V], group) -> codes [B] int64 of codebook `group`, 1 and up.
SampleGroup = Callable[[Tensor, int], Tensor]


class PredictorModel(Backbone):
    """What the checkpoint calls `talker.code_predictor.model`; its embeddings have the talker's width."""

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__(config)
        self.codec_embedding = nn.ModuleList(
            nn.Embedding(config.vocab_size, config.input_size) for _ in range(config.num_code_groups - 1)
        )


class CodePredictor(nn.Module):
    """One frame's depth: position 0 is the hidden state, position g is codebook g - 1, which predicts codebook g.

    Codebook 0 is embedded by the talker. Keys are the published ones without `talker.code_predictor.`.
    """

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__()
        self.config = config
        self.model = PredictorModel(config)
        self.lm_head = nn.ModuleList(
            nn.Linear(config.hidden_size, config.vocab_size, bias=False) for _ in range(config.num_code_groups - 1)
        )
        self.small_to_mtp_projection: nn.Module = nn.Identity()
        if config.hidden_size != config.input_size:
            self.small_to_mtp_projection = nn.Linear(config.input_size, config.hidden_size)
        self._cache = torch.empty(0, 2, 0)

    def forward(self, hidden: Tensor, codes: Tensor, talker: Talker) -> Tensor:
        """Teacher-forced logits of codebooks 1 and up, differentiable."""
        # hidden: [N, talker H]; codes: [N, G] int64 -> [N, G-1, V]
        tables = enumerate(self.model.codec_embedding[:-1], start=1)
        rows = [hidden, talker.codec_rows(codes[:, 0]), *(table(codes[:, group]) for group, table in tables)]
        x = self.model(self.small_to_mtp_projection(torch.stack(rows, dim=1)))
        return torch.stack([head(x[:, group]) for group, head in enumerate(self.lm_head, start=1)], dim=1)

    def embed_sum(self, codes: Tensor, talker: Talker) -> Tensor:
        """The codec side of the talker's next row: the sum of a frame's embeddings."""
        # codes: [B, G] int64 -> [B, H]
        total = talker.codec_rows(codes[:, 0])
        for group, table in enumerate(self.model.codec_embedding, start=1):
            total = total + table(codes[:, group])
        return total

    @torch.inference_mode()
    def predict(self, hidden: Tensor, c0: Tensor, sample: SampleGroup, talker: Talker) -> Tensor:
        """Sample codebooks 1 and up, one after the other, and return whole frames."""
        # hidden: [B, talker H]; c0: [B] int64 -> [B, G] int64
        groups = self.config.num_code_groups
        codes = c0.new_empty(len(c0), groups)
        codes[:, 0] = c0
        cache = self._reserve(hidden)
        cos, sin = self.model.rope.tables(groups, hidden)
        self._step(hidden, 0, cache, cos, sin)
        row = talker.codec_rows(c0)
        for group in range(1, groups):
            x = self._step(row, group, cache, cos, sin)
            codes[:, group] = code = sample(self.lm_head[group - 1](self.model.norm(x)), group)
            row = self.model.codec_embedding[group - 1](code)
        return codes

    def _step(self, row: Tensor, position: int, cache: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        # row: [B, talker H] -> [B, H]; all requests stand at the same position, so they share one batch.
        x: Tensor = self.small_to_mtp_projection(row)
        return self.model.step(x, cos[position], sin[position], partial(_attend, cache, position))

    def _reserve(self, hidden: Tensor) -> Tensor:
        # [layers, 2, B, kv_heads, G, D], kept from frame to frame and overwritten.
        size, config = len(hidden), self.config
        if self._cache.shape[2] < size or self._cache.dtype != hidden.dtype:
            shape = (config.num_hidden_layers, 2, size, config.num_key_value_heads, config.num_code_groups)
            self._cache = hidden.new_empty(*shape, config.head_dim)
        return self._cache[:, :, :size]


def _attend(cache: Tensor, position: int, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    # cache: [layers, 2, B, kv_heads, G, D]; q: [B, heads, D]; k, v: [B, kv_heads, D]
    keys, values = cache[layer].unbind()
    keys[:, :, position] = k
    values[:, :, position] = v
    grouped = q.view(len(q), keys.shape[1], -1, q.shape[-1])
    seen = functional.scaled_dot_product_attention(grouped, keys[:, :, : position + 1], values[:, :, : position + 1])
    return seen.view(q.shape)
