"""What an endpoint answers instead of text, as errors of ours.

Needs the `openai` package, and is imported where an endpoint is used.
"""

from __future__ import annotations

import openai

from ouzel.config import LLM_KEY_VARIABLE
from ouzel.errors import BusyError, EngineError, NotReadyError, OuzelError, RequestError

__all__ = ["error_of"]


def error_of(error: openai.OpenAIError, url: str, *, begun: bool = False) -> OuzelError:
    """The error of ours that says the same.

    :param begun: whether the answer had begun, so that a lost connection is a lost answer
    """
    where = f"the language endpoint {url}"
    if isinstance(error, openai.APIConnectionError):
        cause = f"{error.__cause__ or error}".rstrip(".")
        if begun:
            return EngineError(f"{where} broke off: {cause}")
        return NotReadyError(f"{where} can't be reached: {cause}")
    if not isinstance(error, openai.APIError):
        return EngineError(f"{where}: {error}")
    said, status = _words(error), _status(error)
    match status:
        case 400 | 413 | 422:
            return RequestError(said, param=error.param)
        case 401 | 403:
            return EngineError(f"{where} refuses its key, which {LLM_KEY_VARIABLE} should have: {said}")
        case 404:
            return EngineError(f"{where} has no such model or path; see llm.url and llm.url_model: {said}")
        case 429:
            return BusyError(f"{where} is busy: {said}")
        case 502 | 503 | 504:
            return NotReadyError(f"{where} isn't serving: {said}")
    return EngineError(f"{where}: {said}")


def _status(error: openai.APIError) -> int | None:
    """Of the reply, or in a stream that had begun, of the error in it."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code
    return int(error.code) if error.code is not None and error.code.isdecimal() else None


def _words(error: openai.APIError) -> str:
    """The endpoint's own."""
    if isinstance(error.body, dict):
        for name in ("message", "detail"):
            if isinstance(said := error.body.get(name), str):
                return said
    return error.message
