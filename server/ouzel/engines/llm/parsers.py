"""Which of vLLM's parsers reads what a model writes: its thoughts, its tool calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.parser.abstract_parser import Parser
    from vllm.tokenizers import TokenizerLike

__all__ = ["Parsers", "Reading", "reading_of"]


@dataclass(frozen=True, slots=True)
class Reading:
    """vLLM's names of the parsers for one model; None where it does no such thing."""

    tools: str | None = None
    reasoning: str | None = None


_BY_MODEL_TYPE = {
    "spark2_5": Reading("glm45", "glm45"),
    "qwen3": Reading("hermes", "qwen3"),
}
#: What a template shows of the form of its tool calls, the most telling first.
_TOOL_MARKS = (("<arg_key>", "glm45"), ("<tool_call>", "hermes"), ("<|python_tag|>", "llama3_json"))
_REASONING_OF_TOOLS = {"glm45": "glm45"}
_THOUGHTS = ("<think>", "</think>")


def reading_of(model_type: str, template: str | None) -> Reading:
    """By the model's type where it is known, else by the marks in its chat template."""
    if template is None:
        return Reading()
    if (known := _BY_MODEL_TYPE.get(model_type)) is not None:
        return known
    tools = next((name for mark, name in _TOOL_MARKS if mark in template), None) if "tools" in template else None
    thinks = all(mark in template for mark in _THOUGHTS)
    return Reading(tools, _REASONING_OF_TOOLS.get(tools or "", "deepseek_r1") if thinks else None)


@dataclass(frozen=True, slots=True)
class Parsers:
    """The classes whose instances read one answer each; None where there is nothing to find in it."""

    whole: type[Parser] | None
    #: of a request without tools, in whose answer nothing is a call
    thoughts: type[Parser] | None

    @classmethod
    def of(cls, reading: Reading, tokenizer: TokenizerLike) -> Parsers:
        """:raises TypeError: when the tokenizer lacks what a parser looks for"""
        return cls(_parser(reading.tools, reading.reasoning, tokenizer), _parser(None, reading.reasoning, tokenizer))


def _parser(tools: str | None, reasoning: str | None, tokenizer: TokenizerLike) -> type[Parser] | None:
    from vllm.parser import ParserManager

    return ParserManager.get_parser(
        tools,
        reasoning,
        enable_auto_tools=True,
        # The arguments of a call keep to their schema, whether its tool says `strict` or not.
        tool_strict_level="parameter",
        tokenizer=tokenizer,
    )
