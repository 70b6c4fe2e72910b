"""OpenAI's completions from the client's side: requests of ours as its calls, its chunks as deltas of ours.

Needs the `openai` package, and is imported where an endpoint is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from openai.types import Completion, CompletionChoice, CompletionUsage
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import Choice as ChatChoice
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall

from ouzel.errors import EngineError
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, TextDelta, TokenLogprob, ToolCallDelta, Usage

__all__ = ["Reading", "call_of"]

_LEAST_LOGPROB = -9999.0
_FINISHES = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
}
_NOTHING = TextDelta(slot=0, epoch=0, sequence=0)


def call_of(request: LanguageRequest, model: str) -> dict[str, Any]:
    """The arguments of `chat.completions.create` for a conversation, else of `completions.create`.

    What OpenAI doesn't know goes into `extra_body`, under vLLM's names, and only where it was asked for.
    """
    sampling = request.sampling
    wishes = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "seed": sampling.seed,
        "max_tokens": sampling.max_tokens,
        "stop": list(sampling.stop) or None,
        "n": request.n if request.n > 1 else None,
        **(_of_chat(request) if request.messages is not None else _of_text(request)),
    }
    extra = {
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "ignore_eos": sampling.ignore_eos or None,
        "chat_template_kwargs": dict(request.template) or None,
    }
    return {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        **_given(wishes),
        "extra_body": _given(extra) or None,
    }


def _of_chat(request: LanguageRequest) -> dict[str, Any]:
    alternatives, choice = request.sampling.logprobs, request.tool_choice
    return {
        "messages": [dict(message) for message in request.messages or ()],
        "tools": [dict(tool) for tool in request.tools] or None,
        # "auto" is what an endpoint does by itself; without tools some take no choice.
        "tool_choice": None if choice == "auto" or not request.tools else _tool_choice(request),
        "parallel_tool_calls": None if request.parallel_tool_calls or not request.tools else False,
        "response_format": request.response_format and dict(request.response_format),
        "logprobs": None if alternatives is None else True,
        "top_logprobs": alternatives or None,
    }


def _of_text(request: LanguageRequest) -> dict[str, Any]:
    prompt = request.prompt if request.prompt_ids is None else list(request.prompt_ids)
    return {"prompt": prompt, "logprobs": request.sampling.logprobs}


def _tool_choice(request: LanguageRequest) -> object:
    if request.tool_choice != "named":
        return request.tool_choice
    return {"type": "function", "function": {"name": request.tool_name}}


def _given(wishes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wishes.items() if value is not None}


class Reading:
    """Turns the chunks of one answer into its deltas.

    In our order: the delta that ends the last choice has the usage, which an endpoint sends after it.
    """

    def __init__(self, request: LanguageRequest) -> None:
        self._request = request
        self._open = set(range(request.n))
        self._sequence = 0
        self._held: TextDelta | None = None
        self._usage = Usage(prompt_tokens=0, completion_tokens=0)

    def deltas(self, chunk: ChatCompletionChunk | Completion) -> Iterator[TextDelta]:
        """What a chunk adds.

        :raises EngineError: when it isn't what the protocol says.
        """
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        # Where an endpoint has nothing to say, it may leave a field out or say null, whatever the types promise.
        for choice in chunk.choices or ():
            piece = _text_piece(choice) if isinstance(choice, CompletionChoice) else _chat_piece(choice)
            if piece.index in self._open:
                yield from self._placed(piece)
            elif piece != replace(_NOTHING, index=piece.index):
                raise EngineError(f"the endpoint went on with choice {piece.index} after its end")

    def last(self) -> TextDelta:
        """The last delta, once the stream is over. Where the endpoint doesn't count, its usage is 0.

        :raises EngineError: when the stream ended before the answer.
        """
        if self._held is None:
            raise EngineError("the endpoint's stream ended before its answer did")
        return replace(self._held, usage=self._usage)

    def _placed(self, piece: TextDelta) -> Iterator[TextDelta]:
        if piece == replace(_NOTHING, index=piece.index):
            return
        delta = replace(piece, slot=self._request.slot, epoch=self._request.epoch, sequence=self._sequence)
        self._sequence += 1
        if delta.finish is not None:
            self._open.remove(delta.index)
        if self._open:
            yield delta
        else:
            self._held = delta


def _chat_piece(choice: ChatChoice) -> TextDelta:
    delta = choice.delta
    # vLLM's name was reasoning_content before it was reasoning; OpenAI has neither.
    reasoning = getattr(delta, "reasoning", None) or getattr(delta, "reasoning_content", None) or ""
    said = choice.logprobs
    return TextDelta(
        slot=0,
        epoch=0,
        sequence=0,
        index=choice.index or 0,
        content=(delta and delta.content) or "",
        reasoning=reasoning,
        tool_calls=tuple(map(_tool_call, (delta and delta.tool_calls) or ())),
        logprobs=tuple(
            _logprob(
                one.token, one.logprob, one.bytes, [(other.token, other.logprob) for other in one.top_logprobs or ()]
            )
            for one in (said and said.content) or ()
        ),
        finish=_finish(choice.finish_reason),
    )


def _text_piece(choice: CompletionChoice) -> TextDelta:
    said = choice.logprobs
    tokens = (said and said.tokens) or ()
    values: Sequence[float | None] = (said and said.token_logprobs) or [None] * len(tokens)
    tops: Sequence[dict[str, float] | None] = (said and said.top_logprobs) or [None] * len(tokens)
    return TextDelta(
        slot=0,
        epoch=0,
        sequence=0,
        index=choice.index or 0,
        content=choice.text or "",
        logprobs=tuple(
            _logprob(token, value, None, (top or {}).items())
            for token, value, top in zip(tokens, values, tops, strict=True)
        ),
        finish=_finish(choice.finish_reason),
    )


def _tool_call(piece: ChoiceDeltaToolCall) -> ToolCallDelta:
    called = piece.function
    return ToolCallDelta(
        index=piece.index or 0,
        id=piece.id or None,
        name=(called and called.name) or None,
        arguments=(called and called.arguments) or "",
    )


def _logprob(
    token: str, value: float | None, raw: Iterable[int] | None, top: Iterable[tuple[str, float]]
) -> TokenLogprob:
    return TokenLogprob(
        token=token,
        bytes=tuple(token.encode() if raw is None else raw),
        logprob=_finite(value),
        top=tuple(TokenLogprob(token=other, bytes=tuple(other.encode()), logprob=_finite(one)) for other, one in top),
    )


def _finite(logprob: float | None) -> float:
    return _LEAST_LOGPROB if logprob is None or math.isnan(logprob) else max(_LEAST_LOGPROB, logprob)


def _finish(reason: str | None) -> FinishReason | None:
    if reason is None:
        return None
    if reason not in _FINISHES:
        raise EngineError(f"the endpoint ended its answer with {reason!r}; known are {', '.join(_FINISHES)}")
    return _FINISHES[reason]


def _usage(usage: CompletionUsage) -> Usage:
    cached = usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens
    reasoning = usage.completion_tokens_details and usage.completion_tokens_details.reasoning_tokens
    return Usage(
        prompt_tokens=usage.prompt_tokens or 0,
        completion_tokens=usage.completion_tokens or 0,
        cached_tokens=cached or 0,
        reasoning_tokens=reasoning or 0,
    )
