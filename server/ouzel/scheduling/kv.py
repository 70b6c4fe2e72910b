"""KV memory: what a token costs, how many sequences fit, and who may start.

A talker that was preempted can't be rebuilt from token ids, so nothing is ever preempted: a request starts when its
whole reservation, up to its own cap, fits beside the others', and waits its turn otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from ouzel.errors import BusyError, ConfigError, RequestError

__all__ = ["SENTENCE_TOKENS", "Admission", "KvBudget", "KvGeometry", "kv_budget"]

#: Positions of one sentence at its longest: 300 letters as text, and the frames that they may take.
SENTENCE_TOKENS = 1024

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class KvGeometry:
    """The numbers of a model's config that its KV cache depends on."""

    layers: int
    kv_heads: int
    head_dim: int
    bytes_per_value: int

    @property
    def bytes_per_token(self) -> int:
        """K and V of one token in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.bytes_per_value

    def tokens_in(self, budget_bytes: int) -> int:
        return budget_bytes // self.bytes_per_token


class KvBudget(NamedTuple):
    """What all KV caches together may be."""

    #: that run at once
    sequences: int
    #: that they share
    tokens: int


def kv_budget(geometry: KvGeometry, max_num_seqs: int, kv_cache_bytes: int | None) -> KvBudget:
    """As many sequences as the memory has sentences, at most `max_num_seqs`; None is memory for all of them.

    :raises ConfigError: when it holds not even one sentence.
    """
    if kv_cache_bytes is None:
        return KvBudget(max_num_seqs, max_num_seqs * SENTENCE_TOKENS)
    tokens = geometry.tokens_in(kv_cache_bytes)
    if tokens < SENTENCE_TOKENS:
        needed = SENTENCE_TOKENS * geometry.bytes_per_token
        raise ConfigError(
            f"talker.kv_cache_bytes {kv_cache_bytes} holds no sequence of {SENTENCE_TOKENS} tokens, "
            f"which takes {needed}",
            param="talker.kv_cache_bytes",
        )
    return KvBudget(min(tokens // SENTENCE_TOKENS, max_num_seqs), tokens)


class Admission(Generic[Key]):
    """Who runs and who waits: first come, first served, nobody overtakes, the queue is bounded.

    :param capacity: tokens that all running requests may reserve together.
    :param max_num_seqs: how many may run at once.
    :param max_waiting: how many may wait.
    """

    __slots__ = ("_capacity", "_max_num_seqs", "_max_waiting", "_running", "_waiting")

    def __init__(self, capacity: int, max_num_seqs: int, max_waiting: int) -> None:
        self._capacity = capacity
        self._max_num_seqs = max_num_seqs
        self._max_waiting = max_waiting
        self._running: dict[Key, int] = {}
        self._waiting: deque[tuple[Key, int]] = deque()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def reserved(self) -> int:
        """Tokens that the running requests hold."""
        return sum(self._running.values())

    def submit(self, key: Key, tokens: int) -> None:
        """Queue a request that needs `tokens` in all: prompt plus frame limit.

        :raises RequestError: when it could never fit.
        :raises BusyError: when it would have to wait and the queue is full.
        """
        if tokens > self._capacity:
            raise RequestError(
                f"the request needs {tokens} tokens of KV cache and the whole cache has {self._capacity}: "
                "shorten the text or set a lower frame limit"
            )
        starts_at_once = not self._waiting and self._fits(tokens)
        if self.waiting >= self._max_waiting and not starts_at_once:
            raise BusyError(f"{self.running} requests are running and {self.waiting} waiting, which is the bound")
        self._waiting.append((key, tokens))

    def admit(self) -> list[Key]:
        """Start the requests at the head of the queue that fit now, and reserve for them."""
        admitted: list[Key] = []
        while self._waiting and self._fits(self._waiting[0][1]):
            key, tokens = self._waiting.popleft()
            self._running[key] = tokens
            admitted.append(key)
        return admitted

    def release(self, key: Key) -> None:
        """Give back a request's reservation or its place in the queue; a key that has neither is no fault."""
        if self._running.pop(key, None) is None:
            self._waiting = deque(entry for entry in self._waiting if entry[0] != key)

    def _fits(self, tokens: int) -> bool:
        return self.running < self._max_num_seqs and self.reserved + tokens <= self._capacity
