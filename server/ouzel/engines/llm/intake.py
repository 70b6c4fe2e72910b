"""From a request to the choices that vLLM's engine makes of it, or the reason why it can't be served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.inputs.engine import tokens_input
from vllm.parser.abstract_parser import Parser
from vllm.renderers.base import BaseRenderer
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.input_processor import InputProcessor

from ouzel.engines.llm.chat import Chat
from ouzel.engines.llm.complaints import complaints
from ouzel.engines.llm.parsers import Parsers
from ouzel.engines.llm.sampling import token_limit, vllm_sampling
from ouzel.engines.llm.structured import bounded, grammar_of
from ouzel.errors import RequestError
from ouzel.stages.language import LanguageRequest

__all__ = ["MOST_CHOICES", "Intake", "Order", "Reader"]

MOST_CHOICES = 128


@dataclass(slots=True)
class Reader:
    """Reads one answer: vLLM's parser, and the request as it knows it."""

    parser: Parser
    chat: ChatCompletionRequest
    prompt_ids: list[int]


@dataclass(slots=True)
class Order:
    """One choice of a request, ready for the engine."""

    request: LanguageRequest
    index: int
    work: EngineCoreRequest
    #: tokens of KV that it can come to need
    tokens: int
    reader: Reader | None


@dataclass(slots=True)
class _Laid:
    """A prompt as tokens, and what the parsers make of its request."""

    ids: list[int]
    grammar: StructuredOutputsParams | None
    chat: ChatCompletionRequest | None = None
    skip_special_tokens: bool = True
    reasoning: dict[str, Any] = field(default_factory=dict)


class Intake:
    """Takes the requests of one model."""

    def __init__(
        self,
        renderer: BaseRenderer,
        inputs: InputProcessor,
        chat: Chat,
        parsers: Parsers,
        defaults: Mapping[str, Any],
        context: int,
    ) -> None:
        """
        :param defaults: how tokens are drawn where a request doesn't say, by vLLM's names
        :param context: tokens of prompt and answer together
        """
        self._renderer = renderer
        self.inputs = inputs
        self._chat = chat
        self._parsers = parsers
        self._defaults = defaults
        self._context = context

    def orders(self, request: LanguageRequest) -> list[Order]:
        """:raises RequestError: when the request can't be served, with the words of whoever objects"""
        if not 1 <= request.n <= MOST_CHOICES:
            raise RequestError(f"n is {request.n}; expected 1 to {MOST_CHOICES}", param="n")
        with complaints():
            grammar = grammar_of(request.response_format)
            if request.messages is not None:
                laid = self._conversation(request, grammar)
            else:
                laid = _Laid(self._text(request), grammar, reasoning={"reasoning_ended": True})
            limit = token_limit(
                request.sampling.max_tokens,
                self._defaults.get("max_tokens"),
                len(laid.ids),
                self._context,
                prompt_field="prompt" if request.messages is None else "messages",
            )
            return [self._order(request, laid, limit, index) for index in range(request.n)]

    def _conversation(self, request: LanguageRequest, grammar: StructuredOutputsParams | None) -> _Laid:
        chat = self._chat.parsed(request, grammar)
        with complaints("messages"):
            ids = self._chat.prompt_ids(chat)
        if (parser := self._parser(chat)) is None:
            return _Laid(ids, grammar, chat)
        chat = self._chat.adjust(parser, chat) if request.tool_choice != "none" else chat
        reasoning: dict[str, Any] = {"reasoning_ended": chat.resolve_reasoning_ended(parser, ids)}
        if parser.reasoning_parser is not None:
            reasoning["reasoning_parser_kwargs"] = {"chat_template_kwargs": dict(request.template)}
        return _Laid(ids, bounded(chat.structured_outputs), chat, bool(chat.skip_special_tokens), reasoning)

    def _text(self, request: LanguageRequest) -> list[int]:
        ids = request.prompt_ids
        if ids is None:
            ids = self._renderer.get_tokenizer().encode(request.prompt or "")
        if not ids:
            raise RequestError("the prompt is empty; expected at least one token", param="prompt")
        return list(ids)

    def _order(self, request: LanguageRequest, laid: _Laid, limit: int, index: int) -> Order:
        sampling = vllm_sampling(
            request.sampling,
            self._defaults,
            max_tokens=limit,
            choice=index,
            grammar=laid.grammar,
            skip_special_tokens=laid.skip_special_tokens,
        )
        work = self.inputs.process_inputs(
            f"{request.slot}/{request.epoch}/{index}", tokens_input(laid.ids), sampling, ("generate",)
        )
        for name, value in laid.reasoning.items():
            setattr(work, name, value)
        self.inputs.assign_request_id(work)
        reader = None
        if laid.chat is not None and (parser := self._parser(laid.chat)) is not None:
            reader = Reader(parser, laid.chat, laid.ids)
        return Order(request, index, work, len(laid.ids) + limit, reader)

    def _parser(self, chat: ChatCompletionRequest) -> Parser | None:
        kind = self._parsers.thoughts if chat.tools is None else self._parsers.whole
        if kind is None:
            return None
        return kind(
            self._renderer.get_tokenizer(),
            chat.tools,
            chat_template_kwargs=chat.chat_template_kwargs,
            model_config=self.inputs.model_config,
        )
