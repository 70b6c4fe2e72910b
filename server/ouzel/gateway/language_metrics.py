"""What the server counts of its language model: requests, how soon and how steadily they are written, and its KV."""

from __future__ import annotations

from collections.abc import Callable

from ouzel.gateway.language import LanguageModel
from ouzel.gateway.prometheus import Counter, Gauge, Histogram, Labels, Metric, ReadCounter
from ouzel.stages.language import Usage

__all__ = ["LanguageMetrics"]

_FIRST_TOKEN = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20, 40)
_NEXT_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2)


class LanguageMetrics:
    """The language model's part of the `/metrics` page."""

    def __init__(self, language: LanguageModel, requests: Counter) -> None:
        """:param requests: counts by kind and outcome"""
        self._language = language
        self._requests = requests
        self.waiting = 0
        self.running = 0
        self._prompt = Counter("ouzel_llm_prompt_tokens_total", "Tokens of prompts whose answers are whole.")
        self._completion = Counter("ouzel_llm_completion_tokens_total", "Tokens of whole answers.")
        self._cached = Counter("ouzel_llm_cached_tokens_total", "Tokens of prompts that the KV cache had already.")
        self._first = Histogram(
            "ouzel_llm_time_to_first_token_seconds", "From the request to its first text.", _FIRST_TOKEN
        )
        self._next = Histogram("ouzel_llm_inter_token_seconds", "From one text of a choice to its next.", _NEXT_TOKEN)
        state = ("state",)
        self.page: list[Metric] = [
            self._prompt, self._completion, self._cached, self._first, self._next,
            Gauge("ouzel_llm_state", "1 for the state that the language model is in.", self._state, state),
            Gauge("ouzel_llm_sequences", "Requests in the language stage.", self._sequences, state),
            Gauge("ouzel_llm_kv_tokens", "Tokens that the KV cache holds.", self._counter("kv_tokens")),
            Gauge("ouzel_llm_kv_reserved_tokens", "Of them, reserved.", self._counter("kv_reserved_tokens")),
            ReadCounter("ouzel_llm_preemptions_total", "Requests that lost their KV.", self._counter("preemptions")),
            ReadCounter("ouzel_llm_restarts_total", "Starts of the language stage after its first.", self._restarts),
        ]  # fmt: skip

    def first_token(self, seconds: float) -> None:
        self._first.observe(seconds)

    def next_token(self, seconds: float) -> None:
        self._next.observe(seconds)

    def used(self, usage: Usage) -> None:
        """An answer is whole."""
        self._prompt.add(by=usage.prompt_tokens)
        self._completion.add(by=usage.completion_tokens)
        self._cached.add(by=usage.cached_tokens)

    def ended(self, outcome: str) -> None:
        self._requests.add("llm", outcome)

    def loaded(self) -> dict[Labels, float]:
        """The model, and whether it serves."""
        now = self._language.status()
        return {(now.model,): float(now.serving)} if now.model else {}

    def _state(self) -> dict[Labels, float]:
        return {(self._language.status().state.value,): 1}

    def _sequences(self) -> dict[Labels, float]:
        counters = self._language.status().counters
        return {(name,): counters[name] for name in ("running", "waiting") if name in counters}

    def _counter(self, name: str) -> Callable[[], dict[Labels, float]]:
        """What the stage counts under a name; nothing where no stage of ours counts."""

        def read() -> dict[Labels, float]:
            counters = self._language.status().counters
            return {(): counters[name]} if name in counters else {}

        return read

    def _restarts(self) -> dict[Labels, float]:
        return {(): self._language.status().restarts}
