"""How tokens are drawn: a request's wishes over what the checkpoint's generation_config.json says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

from ouzel.errors import RequestError
from ouzel.stages.language import LanguageSampling

__all__ = ["MOST_LOGPROBS", "token_limit", "vllm_sampling"]

#: vLLM's own bound (`max_logprobs`).
MOST_LOGPROBS = 20
_WISHES = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)


def token_limit(wished: int | None, default: int | None, prompt_tokens: int, context: int, *, prompt_field: str) -> int:
    """How many tokens an answer may have: as wished, else as the checkpoint says, within what the context has left.

    :param prompt_field: where the prompt came from
    :raises RequestError: when the prompt leaves no room for a token, or not for those that were wished
    """
    left = context - prompt_tokens
    if left < 1:
        raise RequestError(
            f"the prompt has {prompt_tokens} tokens and the context {context}, of which the answer needs at least one: "
            "shorten it",
            param=prompt_field,
        )
    if wished is None:
        return left if default is None else min(default, left)
    if wished > left:
        raise RequestError(
            f"max_tokens is {wished} and the prompt has {prompt_tokens} tokens, more together than the context's "
            f"{context}: ask for at most {left}",
            param="max_tokens",
        )
    return wished


def vllm_sampling(
    wishes: LanguageSampling,
    defaults: Mapping[str, Any],
    *,
    max_tokens: int,
    choice: int,
    grammar: StructuredOutputsParams | None,
    skip_special_tokens: bool = True,
) -> SamplingParams:
    """The parameters of one choice.

    :param defaults: from the checkpoint, by vLLM's names
    :raises RequestError: when more alternatives are wished than there are to have
    :raises VLLMValidationError: when a value is out of its range
    """
    if wishes.logprobs is not None and not 0 <= wishes.logprobs <= MOST_LOGPROBS:
        raise RequestError(f"top_logprobs is {wishes.logprobs}; expected 0 to {MOST_LOGPROBS}", param="top_logprobs")
    given = {name: value for name in _WISHES if (value := getattr(wishes, name)) is not None}
    known = {name: value for name, value in defaults.items() if name in _WISHES}
    return SamplingParams(
        **{**known, **given},
        seed=None if wishes.seed is None else wishes.seed + choice,
        max_tokens=max_tokens,
        stop=list(wishes.stop),
        ignore_eos=wishes.ignore_eos,
        logprobs=wishes.logprobs,
        structured_outputs=grammar,
        skip_special_tokens=skip_special_tokens,
        output_kind=RequestOutputKind.DELTA,
    )
