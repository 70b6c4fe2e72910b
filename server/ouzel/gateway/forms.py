"""An answer in text on its way to the wire: choice by choice, in chunks or whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ouzel.stages.core import FinishReason
from ouzel.stages.language import TextDelta, TokenLogprob, ToolCallDelta, Usage

__all__ = ["Choice", "Form", "Reply", "logprob_of", "usage_fields"]

#: JSON, ready to be sent
Reply = dict[str, Any]

_LEAST_LOGPROB = -9999.0  # what OpenAI says for a token that can't be: minus infinity is no JSON


class Form(Protocol):
    """One request's answer in the form that its endpoint has."""

    def chunks(self, delta: TextDelta) -> Iterator[Reply]:
        """What a stream says of a delta; nothing where it adds nothing that can be seen."""

    def usage_chunk(self, usage: Usage) -> Reply:
        """The last chunk of a stream that was asked for its usage."""

    def whole(self, choices: Sequence[Choice], usage: Usage) -> Reply:
        """All of it at once."""


@dataclass(slots=True)
class Choice:
    """One choice, as far as it is written."""

    content: str = ""
    reasoning: str = ""
    #: as they are called: pieces put together
    calls: list[ToolCallDelta] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finish: FinishReason | None = None

    def add(self, delta: TextDelta) -> None:
        self.content += delta.content
        self.reasoning += delta.reasoning
        self.logprobs.extend(delta.logprobs)
        self.finish = delta.finish or self.finish
        for piece in delta.tool_calls:
            self._call(piece)

    def _call(self, piece: ToolCallDelta) -> None:
        for at, call in enumerate(self.calls):
            if call.index == piece.index:
                self.calls[at] = ToolCallDelta(
                    index=call.index,
                    id=call.id or piece.id,
                    name=call.name or piece.name,
                    arguments=call.arguments + piece.arguments,
                )
                return
        self.calls.append(piece)


def usage_fields(usage: Usage) -> Mapping[str, Any]:
    """`usage`, as OpenAI has it."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def logprob_of(token: TokenLogprob) -> float:
    return max(token.logprob, _LEAST_LOGPROB)
