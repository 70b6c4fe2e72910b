"""One request on its way through the engine: its choices, what they have cost, and the deltas that leave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vllm.outputs import RequestOutput

from ouzel.engines.llm.intake import Order, Reader
from ouzel.engines.llm.logprobs import token_logprobs
from ouzel.errors import EngineError, OuzelError
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, TextDelta, ToolCallDelta, Usage

__all__ = ["Choice", "Writing"]

#: by vLLM's names; one that isn't here ended by a fault
_FINISHES = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH, "abort": FinishReason.CANCELLED}


@dataclass(slots=True, eq=False)
class Choice:
    """One answer of a request."""

    order: Order
    since_ns: int
    admitted: bool = False
    finished: bool = False
    ids: list[int] = field(default_factory=list)
    calls: set[int] = field(default_factory=set)  # tools that it has called, by index

    @property
    def name(self) -> str:
        """As the engine calls it in its answers."""
        return str(self.order.work.external_req_id)


@dataclass(slots=True, eq=False)
class Writing:
    """A request that the stage has taken."""

    request: LanguageRequest
    choices: list[Choice]
    sequence: int = 0
    cached_tokens: int = 0

    @property
    def over(self) -> bool:
        return all(choice.finished for choice in self.choices)

    def write(self, choice: Choice, output: RequestOutput, now: int) -> TextDelta | None:
        """What a step has added to a choice; None where that is nothing yet."""
        completion = output.outputs[0]
        self.cached_tokens = max(self.cached_tokens, output.num_cached_tokens or 0)
        choice.ids.extend(completion.token_ids)
        finish = None
        if completion.finish_reason is not None:
            finish = _FINISHES.get(completion.finish_reason, FinishReason.ERROR)
        parts = _read(choice, completion.text, list(completion.token_ids), finished=finish is not None)
        if finish is FinishReason.STOP and choice.calls:
            finish = FinishReason.TOOL_CALLS
        if self.request.sampling.logprobs is not None and completion.logprobs is not None:
            # The token that ends a text is no part of it.
            shown = len(completion.token_ids) - _ended_by_token(completion)
            parts["logprobs"] = token_logprobs(
                completion.token_ids[:shown], completion.logprobs, self.request.sampling.logprobs
            )
        if finish is None and not any(parts.values()):
            return None
        fault = EngineError("the engine gave the request up") if finish is FinishReason.ERROR else None
        return self._delta(choice, now, finish=finish, fault=fault, **parts)

    def end(self, choice: Choice, finish: FinishReason, now: int, fault: OuzelError | None = None) -> TextDelta:
        """The last delta of a choice that ends otherwise than by what it wrote."""
        return self._delta(choice, now, finish=finish, fault=fault)

    def _delta(self, choice: Choice, now: int, *, finish: FinishReason | None, **parts: Any) -> TextDelta:
        choice.finished = finish is not None
        delta = TextDelta(
            slot=self.request.slot,
            epoch=self.request.epoch,
            sequence=self.sequence,
            index=choice.order.index,
            finish=finish,
            usage=self._usage() if self.over else None,
            put_ns=now,
            **parts,
        )
        self.sequence += 1
        return delta

    def _usage(self) -> Usage:
        return Usage(
            prompt_tokens=len(self.choices[0].order.work.prompt_token_ids or ()),
            completion_tokens=sum(len(choice.ids) for choice in self.choices),
            cached_tokens=self.cached_tokens,
            reasoning_tokens=sum(_thought(choice) for choice in self.choices),
        )


def _read(choice: Choice, text: str, ids: list[int], *, finished: bool) -> dict[str, Any]:
    reader = choice.order.reader
    if reader is None:
        return {"content": text}
    if not (text or ids or choice.ids):
        return {}
    delta = reader.parser.parse_delta(text, ids, reader.chat, reader.prompt_ids, finished=finished)
    if delta is None:
        return {}
    return {
        "content": delta.content or "",
        "reasoning": delta.reasoning or "",
        "tool_calls": tuple(_calls(choice, reader, delta.tool_calls or ())),
    }


def _calls(choice: Choice, reader: Reader, found: Any) -> list[ToolCallDelta]:
    made = []
    for call in found:
        if call.index and not reader.chat.parallel_tool_calls:
            continue
        choice.calls.add(call.index)
        function = call.function
        name, arguments = (None, None) if function is None else (function.name, function.arguments)
        made.append(ToolCallDelta(index=call.index, id=call.id, name=name, arguments=arguments or ""))
    return made


def _ended_by_token(completion: Any) -> bool:
    return bool(completion.token_ids) and completion.finish_reason == "stop" and type(completion.stop_reason) is not str


def _thought(choice: Choice) -> int:
    reader = choice.order.reader
    return 0 if reader is None else int(reader.parser.count_reasoning_tokens(choice.ids))
