"""A chat completion as it is asked for, and as the stage takes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from ouzel.errors import RequestError
from ouzel.gateway.messages import read_messages
from ouzel.gateway.text_wishes import Alternatives, TextFields, Tokens
from ouzel.gateway.wishes import Fields, Name, VoiceId
from ouzel.stages.language import LanguageRequest

__all__ = ["ChatRequest"]

_MOST_TOOLS = 128
_TOOL_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)

Choice = Literal["auto", "none", "required", "named"]
_WORDS: Mapping[str, Choice] = {"auto": "auto", "none": "none", "required": "required"}


class AudioWish(Fields):
    """`audio`."""

    voice: Name | VoiceId = Field(description="Speaker name; one of OpenAI's thirteen names also works.")
    format: Literal["wav", "aac", "mp3", "flac", "opus", "pcm16"] = Field(description="A stream has pcm16 alone.")


class ChatRequest(TextFields):
    """`POST /v1/chat/completions`."""

    refused: ClassVar[tuple[str, ...]] = (
        *TextFields.refused,
        "chat_template", "documents", "echo", "function_call", "functions", "moderation", "web_search_options",
    )  # fmt: skip
    harmless: ClassVar[tuple[str, ...]] = (
        *TextFields.harmless,
        "prediction", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "safety_identifier",
    )  # fmt: skip

    messages: list[Any] = Field(description="The conversation: role and content each.")
    modalities: list[Literal["text", "audio"]] | None = Field(None, description="With audio the answer is spoken too.")
    audio: AudioWish | None = Field(None, description="How it is spoken.")
    max_completion_tokens: Tokens | None = Field(None, description="All that the context has room for without.")
    max_tokens: Tokens | None = Field(None, description="The older name of max_completion_tokens.")
    logprobs: bool | None = Field(None, description="Each token's logprob.")
    top_logprobs: Alternatives | None = Field(None, description="Alternatives beside it.")
    tools: list[dict[str, Any]] | None = Field(None, max_length=_MOST_TOOLS)
    tool_choice: Name | dict[str, Any] | None = Field(None, description="auto, none, required, or a function.")
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = Field(None, description="text, json_object or json_schema.")
    reasoning_effort: Name | None = Field(None, description="As the checkpoint's template reads it.")
    verbosity: Literal["medium"] | None = None
    chat_template_kwargs: dict[str, Any] | None = Field(None, description="Further variables of the template.")

    @property
    def aloud(self) -> AudioWish | None:
        """How the answer is to be spoken; None where it isn't.

        :raises RequestError: for what doesn't go together with sound
        """
        if "audio" not in (self.modalities or ()):
            return None
        if self.audio is None:
            raise RequestError("audio: modalities has audio in it, so a voice and a format are needed", param="audio")
        if "text" not in (self.modalities or ()):
            raise RequestError("modalities: audio comes with text; ['text', 'audio'] is served", param="modalities")
        if self.choices > 1:
            raise RequestError(f"n: {self.choices} choices can't be spoken; 1 can", param="n")
        if self.stream and self.audio.format != "pcm16":
            message = f"audio.format: a stream has no {self.audio.format}; pcm16 is served"
            raise RequestError(message, param="audio.format")
        return self.audio

    def requests(self) -> tuple[LanguageRequest, ...]:
        if self.top_logprobs is not None and not self.logprobs:
            raise RequestError("top_logprobs: needs logprobs: true", param="top_logprobs")
        tools = _tools(self.tools or ())
        choice, tool_name = _tool_choice(self.tool_choice, [tool["function"]["name"] for tool in tools])
        limit = self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        return (
            LanguageRequest(
                messages=read_messages(self.messages),
                tools=tools,
                tool_choice=choice,
                tool_name=tool_name,
                parallel_tool_calls=self.parallel_tool_calls is not False,
                response_format=_response_format(self.response_format),
                template=_template(self.chat_template_kwargs or {}, self.reasoning_effort),
                n=self.choices,
                sampling=self.sampling(limit, (self.top_logprobs or 0) if self.logprobs else None),
            ),
        )


def _tools(given: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    seen = set()
    for at, tool in enumerate(given):
        where = f"tools[{at}]"
        if tool.get("type") != "function":
            raise RequestError(f"{where}.type: {tool.get('type')!r} isn't served; function is", param=f"{where}.type")
        function = tool.get("function")
        if not isinstance(function, dict):
            raise RequestError(f"{where}.function: an object with a name is needed", param=f"{where}.function")
        name = function.get("name")
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name) or name in seen:
            why = "is there twice" if name in seen else "is no name; up to 64 of a-z, A-Z, 0-9, '_', '-' and '.' are"
            raise RequestError(f"{where}.function.name: {name!r} {why}", param=f"{where}.function.name")
        if not isinstance(function.get("parameters"), dict | None):
            param = f"{where}.function.parameters"
            raise RequestError(f"{param}: a JSON schema is needed, or nothing", param=param)
        seen.add(name)
    return tuple(given)


def _tool_choice(given: str | Mapping[str, Any] | None, names: Sequence[str]) -> tuple[Choice, str | None]:
    """What is chosen, and the function where it is a named one."""
    if given is None or isinstance(given, str):
        return _tool_word("auto" if given is None else given, names), None
    function = given.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if given.get("type") != "function" or not isinstance(name, str):
        valid = '{"type": "function", "function": {"name": …}}'
        raise RequestError(f"tool_choice: as an object, {valid} is served", param="tool_choice")
    if name not in names:
        raise RequestError(f"tool_choice: {name!r} is none of the tools ({', '.join(names)})", param="tool_choice")
    return "named", name


def _tool_word(given: str, names: Sequence[str]) -> Choice:
    word = _WORDS.get(given)
    if word is None:
        valid = "auto, none, required and an object"
        raise RequestError(f"tool_choice: {given!r}; valid are {valid}", param="tool_choice")
    if word == "required" and not names:
        raise RequestError("tool_choice: required, and no tools are given", param="tool_choice")
    return word if names else "none"


def _response_format(given: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    kind = "text" if given is None else given.get("type")
    if given is None or kind == "text":
        return None
    if kind == "json_schema":
        described = given.get("json_schema")
        if not isinstance(described, dict) or not isinstance(described.get("schema"), dict):
            param = "response_format.json_schema.schema"
            raise RequestError(f"{param}: a JSON schema is needed", param=param)
    elif kind != "json_object":
        param = "response_format.type"
        raise RequestError(f"{param}: {kind!r}; valid are text, json_object and json_schema", param=param)
    return given


def _template(given: Mapping[str, Any], effort: str | None) -> Mapping[str, Any]:
    """Variables of the template; those that are named outright come before what an effort means."""
    if effort is None:
        return given
    meant: dict[str, Any] = {"reasoning_effort": effort}
    # What templates of models that think call the switch.
    if effort == "none":
        meant["enable_thinking"] = False
    return {**meant, **given}
