"""What goes into the language stage and what comes out of it: requests as clients mean them, and finished deltas.

Templates, parsers, structured output and stop strings are the stage's business, so nobody else needs a tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ouzel.errors import OuzelError
from ouzel.stages.core import EngineCore, FinishReason

__all__ = [
    "COUNTERS",
    "LanguageEngine",
    "LanguageFacts",
    "LanguageRequest",
    "LanguageSampling",
    "TextDelta",
    "TokenLogprob",
    "ToolCallDelta",
    "Usage",
]


#: What a language stage counts, as its beats carry it: requests that run and wait, tokens that the KV cache has and
#: that are reserved of it, and how often a request lost its KV (never, unless admission is wrong).
COUNTERS = ("preemptions", "kv_tokens", "kv_reserved_tokens", "running", "waiting")


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSampling:
    """How tokens are drawn; None leaves it to the checkpoint's generation_config.json, or to chance for the seed."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    #: None for all that the context has room for
    max_tokens: int | None = None
    #: The text ends before the first of these; it is never part of the answer.
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    #: Alternatives beside each token; 0 for its own logprob alone, None for none.
    logprobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageRequest:
    """One request of text; exactly one of `prompt`, `prompt_ids` and `messages` is given."""

    slot: int = 0
    epoch: int = 0
    prompt: str | None = None
    prompt_ids: tuple[int, ...] | None = None
    #: A conversation as OpenAI's chat completions have it; the checkpoint's template lays it out.
    messages: tuple[Mapping[str, Any], ...] | None = None
    #: As OpenAI's chat completions have them.
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: Literal["auto", "none", "required", "named"] = "auto"
    #: The function, where `tool_choice` is `named`.
    tool_name: str | None = None
    parallel_tool_calls: bool = True
    #: As OpenAI has it: `{"type": "json_object"}`, `{"type": "json_schema", "json_schema": {…}}`; None for text.
    response_format: Mapping[str, Any] | None = None
    #: Further variables of the chat template (`chat_template_kwargs`).
    template: Mapping[str, Any] = field(default_factory=dict)
    #: Choices made from the one prompt.
    n: int = 1
    sampling: LanguageSampling = LanguageSampling()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """A token as text and bytes, with its natural logarithm of probability: finite, at least -9999."""

    token: str
    bytes: tuple[int, ...]
    logprob: float
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDelta:
    """A piece of a tool call: `id` and `name` come once, with its first piece."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of a whole request."""

    prompt_tokens: int
    completion_tokens: int
    #: of the prompt, those whose KV was there already
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """What one step added to one choice of a request. The request's last delta, and only that, has its usage."""

    slot: int
    epoch: int
    #: 0, 1, 2, … within the request
    sequence: int
    #: which of its choices
    index: int = 0
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    #: how this choice ended; None but in its last delta
    finish: FinishReason | None = None
    #: not None in the request's last delta
    usage: Usage | None = None
    #: what went wrong, where `finish` is `error`; the request's last delta too
    fault: OuzelError | None = None
    #: when it left its core, ns of the monotonic clock
    put_ns: int = 0

    @property
    def last(self) -> bool:
        return self.usage is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageFacts:
    """What a language model says of itself once it serves."""

    #: as clients name it
    model: str
    #: tokens of prompt and answer together; 0 where an endpoint doesn't say
    context: int
    #: tokens that the KV cache holds; None where it isn't ours
    kv_tokens: int | None = None
    tools: bool = False
    reasoning: bool = False


class LanguageEngine(EngineCore[LanguageRequest, object, TextDelta], Protocol):
    """The engine core of a language stage. Nothing is fed to it: a request is whole."""

    @property
    def facts(self) -> LanguageFacts:
        """What it serves."""

    @property
    def counters(self) -> Mapping[str, int]:
        """`COUNTERS`, now."""
