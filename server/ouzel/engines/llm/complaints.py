"""What vLLM has against a request, in our own error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError
from vllm.exceptions import VLLMClientError

from ouzel.errors import RequestError

__all__ = ["complaints"]

#: what vLLM calls a prompt, whichever field of ours it came from
_PROMPTS = ("input_text", "input_tokens")


@contextmanager
def complaints(param: str | None = None) -> Iterator[None]:
    """Turn what vLLM, its types and a template raise about a request into RequestError.

    :param param: the field that it is about, where they don't say
    :raises RequestError: with their words
    """
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][:2])
        raise RequestError(f"{where}: {first['msg']}", param=str(first["loc"][0]) if first["loc"] else None) from error
    except VLLMClientError as error:
        named = getattr(error, "parameter", None)
        raise RequestError(str(error.args[0]), param=param if named in _PROMPTS else named or param) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RequestError(f"the request can't be read: {error}", param=param) from error
