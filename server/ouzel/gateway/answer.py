"""An answer in text, from the language model to whoever writes it down: in order, counted, with one way to end."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from ouzel.errors import EngineError, NotReadyError, OuzelError
from ouzel.gateway.language import LanguageModel
from ouzel.gateway.language_metrics import LanguageMetrics
from ouzel.gateway.merge import merged
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, TextDelta, Usage

__all__ = ["Answer", "AnswerDesk"]


class AnswerDesk:
    """Takes requests for text to the language model."""

    def __init__(
        self, language: LanguageModel, metrics: LanguageMetrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.language = language
        self.metrics = metrics
        self.clock = clock

    @property
    def model(self) -> str:
        """As clients name it; empty where only an endpoint knows that hasn't been reached yet."""
        return self.language.status().model

    def answer(self, requests: Sequence[LanguageRequest], request_id: str) -> Answer:
        """Answers to one request of a client; they begin when the first delta is asked for."""
        return Answer(self, requests, request_id)


class Answer:
    """What was asked for at once, in one or more requests whose choices are numbered through."""

    def __init__(self, desk: AnswerDesk, requests: Sequence[LanguageRequest], request_id: str) -> None:
        self.requests = requests
        self.request_id = request_id
        #: of all requests together; None until the last one is done
        self.usage: Usage | None = None
        #: from the start to the first text; None before it
        self.first_s: float | None = None
        self._desk = desk
        self._latest: dict[int, float] = {}

    async def deltas(self) -> AsyncGenerator[TextDelta | None, None]:
        """The deltas as they come; None for every 15 s of silence. Closing it aborts all that was asked for.

        :raises OuzelError: what the language model raised, or the fault that ended a request
        """
        metrics, began = self._desk.metrics, self._desk.clock()
        outcome = "cancelled"
        metrics.waiting += 1
        try:
            async with aclosing(self._numbered()) as deltas:
                async for delta in deltas:
                    if delta is not None:
                        self._count(delta, began)
                    yield delta
            outcome = "ok"
        except OuzelError as error:
            outcome = "rejected" if error.status < 500 or isinstance(error, NotReadyError) else "error"
            raise
        finally:
            if self.first_s is None:
                metrics.waiting -= 1
            else:
                metrics.running -= 1
            metrics.ended(outcome)

    async def _numbered(self) -> AsyncGenerator[TextDelta | None, None]:
        """The deltas of all requests, their choices numbered through."""
        choices, usages = self.requests[0].n, dict[int, Usage]()
        # A list of prompts takes half of the places at most: a longer one is served too, and so is someone else.
        at_once = max(1, self._desk.language.status().most_requests // 2)
        async with aclosing(merged([self._of(number) for number in range(len(self.requests))], at_once)) as parts:
            async for part in parts:
                if part is None:
                    yield None
                    continue
                number, delta = part
                if delta.finish in (FinishReason.ERROR, FinishReason.CANCELLED):
                    raise delta.fault or EngineError("the answer ended with a fault that its stage didn't name")
                if delta.usage is not None:
                    usages[number] = delta.usage
                yield replace(delta, index=number * choices + delta.index) if number else delta
        if len(usages) < len(self.requests):
            raise EngineError("the answer was stopped by the server")
        self.usage = _sum(list(usages.values()))
        self._desk.metrics.used(self.usage)

    def _of(self, number: int) -> AsyncGenerator[TextDelta, None]:
        name = self.request_id if len(self.requests) == 1 else f"{self.request_id}-{number}"
        return self._desk.language.generate(self.requests[number], name)

    def _count(self, delta: TextDelta, began: float) -> None:
        metrics, now = self._desk.metrics, self._desk.clock()
        if self.first_s is None:
            self.first_s = now - began
            metrics.waiting -= 1
            metrics.running += 1
            metrics.first_token(self.first_s)
        if (latest := self._latest.get(delta.index)) is not None:
            metrics.next_token(now - latest)
        self._latest[delta.index] = now


def _sum(usages: Sequence[Usage]) -> Usage:
    return Usage(
        prompt_tokens=sum(one.prompt_tokens for one in usages),
        completion_tokens=sum(one.completion_tokens for one in usages),
        cached_tokens=sum(one.cached_tokens for one in usages),
        reasoning_tokens=sum(one.reasoning_tokens for one in usages),
    )
