"""Sampling of codes, per request, in the published order of processing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ouzel.errors import EngineError, RequestError
from ouzel.models.qwen3_tts.config import GenerationConfig, TalkerConfig

__all__ = ["Sampler", "SamplingParams", "distribution"]

_LOWEST = torch.finfo(torch.float32).min


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How one request samples; `sub_` is the code predictor. `top_k` 0 and `top_p` 1.0 cut nothing.

    Raises `RequestError` for a value outside its range.
    """

    do_sample: bool = True
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    sub_do_sample: bool = True
    sub_temperature: float = 0.9
    sub_top_k: int = 50
    sub_top_p: float = 1.0
    min_frames: int = 2
    seed: int | None = None

    def __post_init__(self) -> None:
        for name in ("temperature", "sub_temperature", "repetition_penalty"):
            self._check(name, 0 < getattr(self, name) < math.inf, "above 0 and finite")
        for name in ("top_p", "sub_top_p"):
            self._check(name, 0 < getattr(self, name) <= 1, "above 0 and at most 1")
        for name in ("top_k", "sub_top_k", "min_frames"):
            self._check(name, getattr(self, name) >= 0, "0 or more")
        self._check("seed", self.seed is None or 0 <= self.seed < 1 << 63, "0 or more, of at most 63 bits")

    def _check(self, name: str, valid: bool, range_: str) -> None:
        if not valid:
            raise RequestError(f"{name} is {getattr(self, name)}, expected {range_}", param=name)

    @classmethod
    def of(cls, generation: GenerationConfig, **wishes: Any) -> SamplingParams:
        """The checkpoint's defaults, overridden by `wishes`."""
        given = {name: getattr(generation, name) for name in cls.__slots__ if hasattr(generation, name)}
        return cls(**(given | wishes))


class Sampler:
    """One request's draws: its own generator, and the codebook-0 codes that it has drawn."""

    def __init__(self, params: SamplingParams, config: TalkerConfig) -> None:
        self.params = params
        self._eos = config.ids.eos
        self._first_special = config.first_special_id
        self._generator = torch.Generator()
        if params.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(params.seed)
        self._drawn = 0
        self._known: set[int] = set()
        self._codes = torch.empty(config.vocab_size, dtype=torch.int64)

    def sample_c0(self, logits: Tensor) -> int:
        """The next code of codebook 0, or the end of speech; remembers it for the repetition penalty.

        Raises `EngineError` when the logits aren't numbers.
        """
        # logits: [V] -> int
        scores = self.process_c0(logits)
        params = self.params
        if params.do_sample:
            code = self._draw(scores, params.temperature, params.top_k, params.top_p)
        else:
            code = int(scores.argmax())
        self._remember(code)
        return code

    def sample_group(self, logits: Tensor) -> int:
        """A code of one of the other codebooks; raises `EngineError` when the logits aren't numbers."""
        # logits: [V] -> int
        params = self.params
        if params.sub_do_sample:
            return self._draw(logits.float(), params.sub_temperature, params.sub_top_k, params.sub_top_p)
        return int(logits.argmax())

    def process_c0(self, logits: Tensor) -> Tensor:
        """Logits of codebook 0 after repetition penalty, minimum length and suppression."""
        # logits: [V] -> [V] float32
        scores = logits.to(torch.float32, copy=True)
        if self._known:
            codes, penalty = self._codes[: len(self._known)], self.params.repetition_penalty
            seen = scores[codes]
            scores[codes] = torch.where(seen < 0, seen * penalty, seen / penalty)
        eos = scores[self._eos].clone()
        scores[self._first_special :] = -torch.inf
        if self._drawn >= self.params.min_frames:
            scores[self._eos] = eos
        return scores

    def _remember(self, code: int) -> None:
        self._drawn += 1
        if code not in self._known and self.params.repetition_penalty != 1:
            self._codes[len(self._known)] = code
            self._known.add(code)

    def _draw(self, scores: Tensor, temperature: float, top_k: int, top_p: float) -> int:
        ids, weights = distribution(scores, temperature, top_k, top_p)
        # One uniform number a draw, so that a seed means the same whatever is cut.
        edges = weights.cumsum(0, dtype=torch.float64)
        point = torch.rand(1, generator=self._generator, dtype=torch.float64) * edges[-1]
        place = torch.searchsorted(edges, point, right=True).clamp_(max=len(ids) - 1)
        return int(ids[place])


def distribution(scores: Tensor, temperature: float, top_k: int, top_p: float) -> tuple[Tensor, Tensor]:
    """The ids left by temperature, top-k and top-p, ascending, and their probabilities.

    As published, ids that tie with the last of the top k stay. Raises `EngineError` when no score is a number.
    """
    # scores: [V] float32 -> ids [K] int64, probabilities [K] float32
    scores = scores / temperature
    least = _LOWEST
    if 0 < top_k < len(scores):
        least = max(float(scores.topk(top_k).values[-1]), _LOWEST)
    ids = (scores >= least).nonzero().squeeze(1)
    if not len(ids):
        raise EngineError("logits are not numbers")
    probabilities = scores[ids].softmax(0)
    if top_p == 1:
        return ids, probabilities
    ascending, order = probabilities.sort()
    kept = order[(ascending.cumsum(0) > 1 - top_p).index_fill_(0, torch.tensor(len(ids) - 1), True)].sort().values
    return ids[kept], probabilities[kept] / probabilities[kept].sum()
