"""A conversation as the checkpoint's template lays it out, and as vLLM's parsers want to know of it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedTokenizerBase
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser.abstract_parser import Parser
from vllm.renderers.base import BaseRenderer
from vllm.renderers.hf import safe_apply_chat_template
from vllm.sampling_params import StructuredOutputsParams

from ouzel.engines.llm.parsers import Reading
from ouzel.errors import RequestError
from ouzel.stages.language import LanguageRequest

__all__ = ["Chat"]

_TEXT_PARTS = ("text", "refusal")
#: What lays a conversation out takes these by name beside the template's variables, another template among them.
_ARGUMENTS = {
    "messages",
    *inspect.signature(PreTrainedTokenizerBase.apply_chat_template).parameters,
    *inspect.signature(safe_apply_chat_template).parameters,
} - {"kwargs"}


class Chat:
    """Lays out the conversations of one checkpoint."""

    def __init__(self, renderer: BaseRenderer, reading: Reading, name: str, *, has_template: bool) -> None:
        """:param name: the model's, for messages to the client"""
        self._renderer = renderer
        self._reading = reading
        self._name = name
        self._has_template = has_template

    def parsed(self, request: LanguageRequest, grammar: StructuredOutputsParams | None) -> ChatCompletionRequest:
        """The request in vLLM's type, which checks messages and tools.

        :raises RequestError: when the model has no chat template, or can't call tools and is asked to, or when what
            should be a variable of the template is none
        """
        if not self._has_template:
            raise RequestError(f"{self._name} has no chat template: use /v1/completions", param="messages")
        if request.tools and request.tool_choice != "none" and self._reading.tools is None:
            raise RequestError(
                f"{self._name} can't call tools: its chat template doesn't tell of them; leave tools out", param="tools"
            )
        if taken := _ARGUMENTS & request.template.keys():
            raise RequestError(
                f"chat_template_kwargs.{min(taken)} is no variable of a template; leave it out",
                param="chat_template_kwargs",
            )
        for place, message in enumerate(request.messages or ()):
            _check_content(place, message.get("content"))
        chat: ChatCompletionRequest = ChatCompletionRequest.model_validate(
            {
                "messages": [dict(message) for message in request.messages or ()],
                "tools": [dict(tool) for tool in request.tools] or None,
                "tool_choice": _tool_choice(request),
                "parallel_tool_calls": request.parallel_tool_calls,
                "chat_template_kwargs": dict(request.template),
            }
        )
        chat.structured_outputs = grammar
        return chat

    def prompt_ids(self, chat: ChatCompletionRequest) -> list[int]:
        """The tokens of the whole conversation, up to where the answer begins.

        :raises VLLMValidationError: with the template's own words, when it objects
        """
        tools = None if chat.tools is None else [tool.model_dump(exclude_unset=True) for tool in chat.tools]
        params = chat.build_chat_params(None, "auto").with_defaults({"tools": tools, "tokenize": False})
        _, (prompt,) = self._renderer.render_chat([chat.messages], params)
        return list(prompt["prompt_token_ids"])

    def adjust(self, parser: Parser, chat: ChatCompletionRequest) -> ChatCompletionRequest:
        """Let the parser ask for its grammar, and for special tokens to be written out."""
        adjusted: ChatCompletionRequest = parser.adjust_request(chat)
        return adjusted


def _check_content(place: int, content: object) -> None:
    """Text alone: vLLM would fetch a picture from wherever its URL points."""
    for part in content if isinstance(content, list | tuple) else ():
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        if kind not in _TEXT_PARTS:
            raise RequestError(
                f"messages[{place}].content has a part of type {kind!r}; expected text", param="messages"
            )


def _tool_choice(request: LanguageRequest) -> str | dict[str, Any]:
    if request.tool_choice == "named":
        return {"type": "function", "function": {"name": request.tool_name}}
    return request.tool_choice if request.tools else "none"
