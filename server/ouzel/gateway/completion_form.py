"""A plain completion in the types of the `openai` package, which only a server with a language model needs."""

from __future__ import annotations

import codecs
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openai.types import Completion

from ouzel.gateway.forms import Choice, Reply, logprob_of, usage_fields
from ouzel.gateway.text_wishes import CompletionRequest
from ouzel.stages.core import FinishReason
from ouzel.stages.language import TextDelta, TokenLogprob, Usage

__all__ = ["CompletionForm"]


class CompletionForm:
    """As `Form` says."""

    def __init__(self, asked: CompletionRequest, request_id: str, model: str, created: int) -> None:
        self._asked = asked
        self._head = {"id": f"cmpl-{request_id}", "object": "text_completion", "created": created, "model": model}
        self._begun: set[int] = set()
        self._places: defaultdict[int, _Places] = defaultdict(_Places)

    def chunks(self, delta: TextDelta) -> Iterator[Reply]:
        if delta.index not in self._begun:
            self._begun.add(delta.index)
            if echo := self._echo(delta.index):
                yield self._chunk(delta.index, echo, (), None)
        if delta.content or delta.reasoning or delta.logprobs or delta.finish:
            yield self._chunk(delta.index, delta.reasoning + delta.content, delta.logprobs, delta.finish)

    def usage_chunk(self, usage: Usage) -> Reply:
        return _as_sent({**self._head, "choices": [], "usage": usage_fields(usage)})

    def whole(self, choices: Sequence[Choice], usage: Usage) -> Reply:
        parts = [
            self._choice(
                index, self._echo(index) + choice.reasoning + choice.content, tuple(choice.logprobs), choice.finish
            )
            for index, choice in enumerate(choices)
        ]
        return _as_sent({**self._head, "choices": parts, "usage": usage_fields(usage)})

    def _chunk(self, index: int, text: str, logprobs: Sequence[TokenLogprob], finish: FinishReason | None) -> Reply:
        usage = {"usage": None} if self._asked.include_usage else {}
        return _as_sent({**self._head, "choices": [self._choice(index, text, logprobs, finish)], **usage})

    def _choice(
        self, index: int, text: str, logprobs: Sequence[TokenLogprob], finish: FinishReason | None
    ) -> Mapping[str, Any]:
        said = self._logprobs(index, logprobs) if logprobs else None
        return {"index": index, "text": text, "logprobs": said, "finish_reason": finish}

    def _echo(self, index: int) -> str:
        """What a choice begins with: its prompt, where that was asked for."""
        if not self._asked.echo:
            return ""
        prompt = self._asked.prompt
        return prompt if isinstance(prompt, str) else prompt[index // self._asked.choices]

    def _logprobs(self, index: int, tokens: Sequence[TokenLogprob]) -> Mapping[str, Any]:
        return {
            "tokens": [token.token for token in tokens],
            "token_logprobs": [logprob_of(token) for token in tokens],
            "top_logprobs": [{one.token: logprob_of(one) for one in (*token.top, token)} for token in tokens],
            "text_offset": [self._places[index].next(token) for token in tokens],
        }


class _Places:
    """Where tokens begin in their text, in letters; a letter may be spread over several tokens."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._letters = 0

    def next(self, token: TokenLogprob) -> int:
        place = self._letters
        self._letters += len(self._decoder.decode(bytes(token.bytes)))
        return place


def _as_sent(fields: Mapping[str, Any]) -> Reply:
    # Not validated: the package has this one type for streams too, whose chunks have no finish reason yet.
    return Completion.construct(**fields).model_dump(exclude_unset=True, warnings=False)
