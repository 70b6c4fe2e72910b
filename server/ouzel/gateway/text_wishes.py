"""What requests for text have in common, and a plain completion: read field by field, and as the stage takes them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, StringConstraints, WithJsonSchema

from ouzel.errors import RequestError
from ouzel.gateway.wishes import Fields, Name
from ouzel.stages.language import LanguageRequest, LanguageSampling

__all__ = ["CompletionRequest", "StreamOptions", "TextFields", "check_values"]

_MOST_CHOICES = 128
_MOST_ALTERNATIVES = 20
_MOST_TOKENS = 1 << 31
_MOST_STOPS = 16
_DEEPEST = 64
_SEEDS = 1 << 63
_LEAST_TOP_P = 1e-6
_DEFAULT_TOKENS = 16  # of a completion, as OpenAI has it; a chat's answer is as long as it likes

Stop = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Tokens = Annotated[int, Field(ge=1, le=_MOST_TOKENS)]
#: Not `true`, which is how chat completions ask.
Alternatives = Annotated[int, Field(strict=True, ge=0, le=_MOST_ALTERNATIVES)]


class StreamOptions(Fields):
    """`stream_options`."""

    include_usage: bool = False


class TextFields(Fields, ABC):
    """What both kinds of request may ask for."""

    refused: ClassVar[tuple[str, ...]] = (
        "logit_bias",
        # of vLLM's server
        "add_generation_prompt", "allowed_token_ids", "bad_words", "continue_final_message", "guided_choice",
        "guided_grammar", "guided_json", "guided_regex", "include_stop_str_in_output", "length_penalty", "min_tokens",
        "prompt_logprobs", "stop_token_ids", "structured_outputs", "truncate_prompt_tokens", "use_beam_search",
    )  # fmt: skip
    harmless: ClassVar[tuple[str, ...]] = ("metadata", "service_tier", "store", "user")

    model: Name | None = Field(None, description="Any name; an unknown one is served by the model that is loaded.")
    stream: bool | None = Field(None, description="true: events while the text is written.")
    stream_options: StreamOptions | None = None
    n: int | None = Field(None, ge=1, le=_MOST_CHOICES, description="Choices made from one prompt.")
    temperature: float | None = Field(None, ge=0, description="0 for the likeliest token each time.")
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=-1, description="0 and -1 for all tokens.")
    min_p: float | None = Field(None, ge=0, le=1)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    repetition_penalty: float | None = Field(None, gt=0)
    seed: int | None = Field(None, ge=-_SEEDS, lt=_SEEDS, description="The same seed gives the same text.")
    stop: Stop | Annotated[list[Stop], Field(max_length=_MOST_STOPS)] | None = Field(
        None, description="The text ends before the first of these."
    )
    ignore_eos: bool = Field(False, description="Write on to the token limit.")

    @property
    def choices(self) -> int:
        return self.n or 1

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with its usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    @abstractmethod
    def requests(self) -> tuple[LanguageRequest, ...]:
        """As the language model takes it, one for each prompt.

        :raises RequestError: for the first field that is wrong, and for those that don't go together
        """

    def sampling(self, max_tokens: int | None, logprobs: int | None) -> LanguageSampling:
        return LanguageSampling(
            temperature=self.temperature,
            top_p=None if self.top_p is None else max(self.top_p, _LEAST_TOP_P),  # 0 means the likeliest alone
            top_k=None if self.top_k is None else max(self.top_k, 0),
            min_p=self.min_p,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=self.repetition_penalty,
            # Engines take -1 for chance, and a seed that was given isn't that.
            seed=None if self.seed is None else self.seed % _SEEDS,
            max_tokens=max_tokens,
            stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
            ignore_eos=self.ignore_eos,
            logprobs=logprobs,
        )


_IDS = {"type": "array", "items": {"type": "integer"}}
_PROMPT = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}},
        _IDS,
        {"type": "array", "items": _IDS},
    ]
}


class CompletionRequest(TextFields):
    """`POST /v1/completions`."""

    refused: ClassVar[tuple[str, ...]] = (*TextFields.refused, "suffix")

    prompt: Annotated[Any, WithJsonSchema(_PROMPT)] = Field(description="A text, token ids, or a list of either.")
    max_tokens: Tokens | None = Field(None, description=f"{_DEFAULT_TOKENS} without.")
    logprobs: Alternatives | None = Field(None, description="Alternatives beside each token's logprob.")
    echo: bool = Field(False, description="Begin with the prompt.")
    best_of: int | None = None

    def requests(self) -> tuple[LanguageRequest, ...]:
        prompts = _prompts(self.prompt)
        if len(prompts) * self.choices > _MOST_CHOICES:
            asked = f"{len(prompts)} prompts × {self.choices}"
            raise RequestError(f"n: {asked} are more than {_MOST_CHOICES} choices", param="n")
        if self.best_of is not None and self.best_of != self.choices:
            raise RequestError(f"best_of: {self.best_of} isn't served; n ({self.choices}) is", param="best_of")
        if self.echo and self.logprobs is not None:
            raise RequestError(
                "echo: the prompt's own logprobs aren't served; leave out echo or logprobs", param="echo"
            )
        if self.echo and not all(isinstance(prompt, str) for prompt in prompts):
            raise RequestError("echo: token ids have no text here; send the prompt as text", param="echo")
        sampling = self.sampling(self.max_tokens or _DEFAULT_TOKENS, self.logprobs)
        return tuple(
            LanguageRequest(prompt=prompt, n=self.choices, sampling=sampling)
            if isinstance(prompt, str)
            else LanguageRequest(prompt_ids=prompt, n=self.choices, sampling=sampling)
            for prompt in prompts
        )


def check_values(fields: Mapping[str, Any]) -> None:
    """What JSON can say and no model can read, wherever in the body it is.

    :raises RequestError: for half a surrogate pair, a number without end, or values inside values beyond reason
    """
    for name, value in fields.items():
        left: list[tuple[Any, int]] = [(value, 1)]
        while left:
            one, depth = left.pop()
            if isinstance(one, str):
                _check_letters(name, one)
            elif isinstance(one, float) and not math.isfinite(one):
                raise RequestError(f"{name}: {one} is no number to reckon with", param=name)
            elif isinstance(one, dict | list):
                if depth > _DEEPEST:
                    raise RequestError(f"{name}: nested more than {_DEEPEST} deep", param=name)
                inside = one if isinstance(one, list) else [*one, *one.values()]
                left.extend((part, depth + 1) for part in inside if isinstance(part, str | float | dict | list))


def _check_letters(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(text[error.start]):04X}"
        raise RequestError(f"{name}: half a surrogate pair, {half}, at letter {error.start}", param=name) from error


def _prompts(given: Any) -> list[str | tuple[int, ...]]:
    several = given if isinstance(given, list) and not _is_ids(given) else [given]
    if not several:
        raise RequestError("prompt: the list is empty; a text or token ids are needed", param="prompt")
    return [_prompt(one, "prompt" if several is not given else f"prompt[{at}]") for at, one in enumerate(several)]


def _prompt(given: Any, where: str) -> str | tuple[int, ...]:
    if isinstance(given, str) and given:
        return given
    if isinstance(given, list) and given and _is_ids(given):
        if (least := min(given)) < 0 or max(given) >= _MOST_TOKENS:
            raise RequestError(f"{where}: {least if least < 0 else max(given)} is no token id", param="prompt")
        return tuple(given)
    found = "an empty one" if given in ("", []) else type(given).__name__
    raise RequestError(f"{where}: a text or a list of token ids is needed, not {found}", param="prompt")


def _is_ids(given: list[Any]) -> bool:
    return bool(given) and all(type(one) is int for one in given)
