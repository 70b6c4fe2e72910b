"""A chat completion in the types of the `openai` package, which only a server with a language model needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk

from ouzel.gateway.chat_wishes import ChatRequest
from ouzel.gateway.forms import Choice, Reply, logprob_of, usage_fields
from ouzel.stages.core import FinishReason
from ouzel.stages.language import TextDelta, TokenLogprob, ToolCallDelta, Usage

__all__ = ["ChatForm"]


class ChatForm:
    """As `Form` says."""

    def __init__(self, asked: ChatRequest, request_id: str, model: str, created: int) -> None:
        self._asked = asked
        self._head = {"id": f"chatcmpl-{request_id}", "created": created, "model": model}
        self._begun: set[int] = set()

    def chunks(self, delta: TextDelta) -> Iterator[Reply]:
        if delta.index not in self._begun:
            self._begun.add(delta.index)
            yield self.chunk(delta.index, {"role": "assistant", "content": ""})
        said: dict[str, Any] = {}
        if delta.reasoning:
            said["reasoning_content"] = delta.reasoning
        if delta.content:
            said["content"] = delta.content
        if delta.tool_calls:
            said["tool_calls"] = [_call_piece(piece) for piece in delta.tool_calls]
        if said or delta.logprobs:
            yield self.chunk(delta.index, said, logprobs=delta.logprobs)
        if delta.finish is not None:
            yield self.chunk(delta.index, {}, finish=delta.finish)

    def chunk(
        self,
        index: int,
        said: Mapping[str, Any],
        *,
        logprobs: Sequence[TokenLogprob] = (),
        finish: FinishReason | None = None,
    ) -> Reply:
        """One chunk of one choice.

        :param said: its `delta`
        """
        choice = {"index": index, "delta": said, "logprobs": _logprobs(logprobs), "finish_reason": finish}
        usage = {"usage": None} if self._asked.include_usage else {}
        return self._chunk([choice], usage)

    def usage_chunk(self, usage: Usage) -> Reply:
        return self._chunk([], {"usage": usage_fields(usage)})

    def whole(self, choices: Sequence[Choice], usage: Usage) -> Reply:
        reply = ChatCompletion.model_validate(
            {
                **self._head,
                "object": "chat.completion",
                "choices": [self._whole_choice(index, choice) for index, choice in enumerate(choices)],
                "usage": usage_fields(usage),
            }
        )
        return reply.model_dump(exclude_unset=True)

    def _chunk(self, choices: Sequence[Mapping[str, Any]], usage: Mapping[str, Any]) -> Reply:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices, **usage}
        return ChatCompletionChunk.model_validate(chunk).model_dump(exclude_unset=True)

    def _whole_choice(self, index: int, choice: Choice) -> Mapping[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if choice.calls and not choice.content else choice.content,
            "refusal": None,
        }
        if choice.reasoning:
            message["reasoning_content"] = choice.reasoning
        if choice.calls:
            message["tool_calls"] = [_whole_call(call) for call in choice.calls]
        logprobs = _logprobs(choice.logprobs) if self._asked.logprobs else None
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": choice.finish}


def _call_piece(piece: ToolCallDelta) -> Mapping[str, Any]:
    function = {"arguments": piece.arguments}
    if piece.name is not None:
        function["name"] = piece.name
    head = {} if piece.id is None else {"id": piece.id, "type": "function"}
    return {"index": piece.index, **head, "function": function}


def _whole_call(call: ToolCallDelta) -> Mapping[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _logprobs(tokens: Sequence[TokenLogprob]) -> Mapping[str, Any] | None:
    if not tokens:
        return None
    content = [{**_token(token), "top_logprobs": [_token(one) for one in token.top]} for token in tokens]
    return {"content": content, "refusal": None}


def _token(token: TokenLogprob) -> Mapping[str, Any]:
    return {"token": token.token, "bytes": list(token.bytes), "logprob": logprob_of(token)}
