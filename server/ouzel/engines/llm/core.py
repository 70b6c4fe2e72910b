"""The language stage's engine core: conversations in, deltas of text out.

A request enters vLLM's engine when all the KV that it can come to need is free, so vLLM never has to preempt one. A
step gives each text one token, and reads a piece of a prompt beside.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from vllm.outputs import RequestOutput
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.engine.input_processor import InputProcessor

from ouzel.engines.llm.engine import Engine
from ouzel.engines.llm.intake import Intake
from ouzel.engines.llm.kv import BlockCount
from ouzel.engines.llm.writing import Choice, Writing
from ouzel.errors import BusyError, EngineError, OuzelError, RequestError
from ouzel.scheduling import Admission
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageFacts, LanguageRequest, TextDelta
from ouzel.stats.phases import Phase
from ouzel.stats.steps import NULL, Stats

__all__ = ["LanguageCore"]

log = logging.getLogger(__name__)

Key = tuple[int, int, int]  # slot, epoch, choice


class LanguageCore:
    """Writes the admitted requests, all of them in one batch."""

    def __init__(
        self,
        engine: Engine,
        intake: Intake,
        blocks: BlockCount,
        facts: LanguageFacts,
        *,
        max_num_seqs: int,
        max_waiting: int,
        stats: Stats = NULL,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._engine = engine
        self._intake = intake
        self._blocks = blocks
        self._max_waiting = max_waiting
        self.facts = facts
        self.stats = stats
        self._clock = clock
        # Choices wait one by one, but it is requests that are refused: see `_check_queue`.
        self._admission: Admission[Key] = Admission(blocks.capacity, max_num_seqs, max_waiting=1 << 30)
        self._writings: dict[int, Writing] = {}
        self._choices: dict[str, tuple[Writing, Choice]] = {}
        self._ended: list[TextDelta] = []

    @property
    def engine(self) -> Engine:
        """For whoever measures with it, while there is no work."""
        return self._engine

    @property
    def inputs(self) -> InputProcessor:
        """What makes the engine's requests."""
        return self._intake.inputs

    @property
    def has_work(self) -> bool:
        return bool(self._ended) or self._engine.has_requests

    @property
    def counters(self) -> Mapping[str, int]:
        admitted = [choice for _, choice in self._choices.values() if choice.admitted]
        return {
            "preemptions": self._engine.preemptions,
            "kv_tokens": self.facts.kv_tokens or 0,
            "kv_reserved_tokens": sum(choice.order.tokens for choice in admitted),
            "running": self._admission.running,
            "waiting": self._admission.waiting,
        }

    def add(self, request: LanguageRequest) -> None:
        """Queue a request.

        :raises RequestError: when the request, or what the template makes of it, can't be served, or can never fit.
        :raises BusyError: when the queue is at its bound.
        :raises EngineError: when the slot still belongs to another request.
        """
        if request.slot in self._writings:
            raise EngineError(
                f"slot {request.slot} still belongs to epoch {self._writings[request.slot].request.epoch}"
            )
        with self.stats.phase(Phase.TEXT):
            orders = self._intake.orders(request)
        self._check_fit(orders[0].tokens)
        self._check_queue()
        writing = Writing(request, [Choice(order, self._clock()) for order in orders])
        self._writings[request.slot] = writing
        for choice in writing.choices:
            self._choices[choice.name] = writing, choice
            self._admission.submit(_key(writing, choice), self._blocks.of(choice.order.tokens))
        self._admit()

    def feed(self, slot: int, item: object) -> None:
        raise EngineError("a request of text is whole; nothing is fed to it")

    def abort(self, slot: int) -> None:
        writing = self._writings.get(slot)
        for choice in writing.choices if writing is not None else ():
            if writing is not None and not choice.finished:
                self._end(writing, choice, FinishReason.CANCELLED)

    def step(self) -> list[TextDelta]:
        with self.stats.step():
            plan = self._schedule()
            outputs = self._run(plan)
            return self._emit(outputs)

    def close(self) -> None:
        """vLLM isn't taken apart: that takes two seconds, and its process ends with its stage."""
        for slot in list(self._writings):
            self.abort(slot)
        self._ended.clear()

    def _schedule(self) -> SchedulerOutput:
        with self.stats.phase(Phase.SCHEDULE):
            return self._engine.schedule()

    def _run(self, plan: SchedulerOutput) -> list[RequestOutput]:
        reads_prompt = plan.total_num_scheduled_tokens > len(plan.num_scheduled_tokens)
        with self.stats.phase(Phase.PREFILL if reads_prompt else Phase.FORWARD):
            made = self._engine.run(plan)
        with self.stats.phase(Phase.UPDATE):
            outputs = self._engine.update(plan, made)
        with self.stats.phase(Phase.DETOKENIZE):
            return self._engine.detokenize(outputs)

    def _emit(self, outputs: list[RequestOutput]) -> list[TextDelta]:
        with self.stats.phase(Phase.EMIT):
            deltas, self._ended = self._ended, []
            for output in outputs:
                if output.request_id in self._choices:
                    deltas.extend(self._write(output))
            return deltas

    def _write(self, output: RequestOutput) -> list[TextDelta]:
        writing, choice = self._choices[output.request_id]
        self.stats.made(len(output.outputs[0].token_ids))
        try:
            delta = writing.write(choice, output, self._clock())
        except Exception as error:  # vLLM's parsers raise anything; what one answer says must end no other
            log.exception("an answer can't be read")
            self._end(writing, choice, FinishReason.ERROR, EngineError(f"the model's answer can't be read: {error!r}"))
            ended, self._ended = self._ended, []
            return ended
        if choice.finished:
            self._forget(writing, choice)
        return [] if delta is None else [delta]

    def _end(self, writing: Writing, choice: Choice, finish: FinishReason, fault: OuzelError | None = None) -> None:
        """End a choice that vLLM may still be writing; its last delta leaves with this step or the next."""
        if choice.admitted:
            self._engine.abort([choice.name])
        self._ended.append(writing.end(choice, finish, self._clock(), fault))
        self._forget(writing, choice)

    def _forget(self, writing: Writing, choice: Choice) -> None:
        del self._choices[choice.name]
        if writing.over:
            del self._writings[writing.request.slot]
        self._admission.release(_key(writing, choice))
        self._admit()

    def _admit(self) -> None:
        """Hand those to vLLM whose whole reservation fits now."""
        for slot, _, index in self._admission.admit():
            choice = self._writings[slot].choices[index]
            choice.admitted = True
            self.stats.record(Phase.QUEUE, self._clock() - choice.since_ns)
            self._engine.add(choice.order.work)

    def _check_fit(self, tokens: int) -> None:
        if self._blocks.of(tokens) > self._blocks.capacity:
            raise RequestError(
                f"prompt and answer may come to {tokens} tokens and the KV cache holds {self.facts.kv_tokens}: ask for "
                "fewer max_tokens, or raise llm.kv_cache_bytes",
                param="max_tokens",
            )

    def _check_queue(self) -> None:
        waiting = sum(not any(choice.admitted for choice in one.choices) for one in self._writings.values())
        if waiting and waiting >= self._max_waiting:
            raise BusyError(
                f"{self._admission.running} texts are written and {waiting} requests wait, which is the bound"
            )


def _key(writing: Writing, choice: Choice) -> Key:
    return writing.request.slot, writing.request.epoch, choice.order.index
