"""Grammars that hold a model to JSON, with a bound on the blanks between two tokens of it.

Blanks are always allowed between JSON's tokens, and a small model that has nothing to say writes them until its last
token. Everything goes to xgrammar as a structural tag, the only form in which vLLM passes the bound on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.structured_output.backend_xgrammar import has_xgrammar_unsupported_json_features
from xgrammar import Grammar

from ouzel.errors import RequestError

__all__ = ["MOST_BLANKS", "MOST_REPEATS", "bounded", "grammar_of"]

MOST_BLANKS = 8
#: Reading `.{1,n}` takes n² steps, in which nobody else's text goes on: 0.3 s for a thousand, 10 s for five thousand.
MOST_REPEATS = 1000
_REPEATS = re.compile(r"(?<!\\)\{(\d+)(?:,(\d*))?\}")
_PLACE_IN_XGRAMMAR = re.compile(r"^\[[\d:]+\] \S+:\d+: ")
_FORMATS = ("text", "json_object", "json_schema")


def grammar_of(response_format: Mapping[str, Any] | None) -> StructuredOutputsParams | None:
    """The grammar of OpenAI's `response_format`; None where any text will do.

    :raises RequestError: when it has another type, or its schema asks for what no grammar can hold, or for too much
    """
    kind = "text" if response_format is None else response_format.get("type")
    if kind not in _FORMATS:
        raise RequestError(
            f"response_format.type is {kind!r}; expected one of {', '.join(_FORMATS)}", param="response_format"
        )
    if response_format is None or kind == "text":
        return None
    return _tag({"type": "json_schema", "json_schema": _schema(response_format)})


def bounded(params: StructuredOutputsParams | None) -> StructuredOutputsParams | None:
    """The grammar that a tool parser made, with our bound on blanks.

    :raises RequestError: when a tool's schema asks for too much
    """
    if params is None:
        return None
    if params.structural_tag is not None:
        form = json.loads(params.structural_tag)["format"]
        _check_repeats(form, "tools")
        return _tag(form)
    if params.json is not None:
        schema = json.loads(params.json) if isinstance(params.json, str) else params.json
        _check_repeats(schema, "tools")
        return _tag({"type": "json_schema", "json_schema": schema})
    return params


def _schema(response_format: Mapping[str, Any]) -> dict[str, Any]:
    if response_format["type"] == "json_object":
        return {"type": "object"}
    named = response_format.get("json_schema")
    schema = named.get("schema") if isinstance(named, Mapping) else None
    if not isinstance(schema, dict):
        raise RequestError("response_format.json_schema.schema is missing; expected an object", param="response_format")
    if has_xgrammar_unsupported_json_features(schema):
        raise RequestError(
            "response_format's schema asks for what a grammar can't hold (multipleOf, uniqueItems, contains, an "
            "unknown format, or lengths beside a pattern): leave that out",
            param="response_format",
        )
    _check_repeats(schema, "response_format")
    try:
        Grammar.from_json_schema(json.dumps(schema))
    except (RuntimeError, ValueError) as error:
        reason = _PLACE_IN_XGRAMMAR.sub("", str(error)).strip()
        raise RequestError(f"response_format's schema can't be served: {reason}", param="response_format") from error
    return schema


def _check_repeats(schema: object, param: str) -> None:
    found = [int(most or least) for pattern in _patterns(schema) for least, most in _REPEATS.findall(pattern)]
    if sum(found) > MOST_REPEATS:
        raise RequestError(
            f"{param}: its patterns repeat something {sum(found)} times; at most {MOST_REPEATS} are served "
            "(maxLength bounds a text as well)",
            param=param,
        )


def _patterns(schema: object) -> Iterator[str]:
    """The regular expressions in a schema, however deep."""
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name == "pattern" and isinstance(value, str):
                yield value
            elif name == "patternProperties" and isinstance(value, dict):
                yield from value
            yield from _patterns(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _patterns(value)


def _tag(form: dict[str, Any]) -> StructuredOutputsParams:
    return StructuredOutputsParams(structural_tag=json.dumps({"type": "structural_tag", "format": _bound(form)}))


def _bound(form: Any) -> Any:
    """The same form, with the bound on every piece of JSON in it."""
    if isinstance(form, list):
        return [_bound(entry) for entry in form]
    if not isinstance(form, dict):
        return form
    if form.get("type") == "json_schema" and "json_schema" in form:
        # Between tags, blanks around a text are part of it, and xgrammar knows no bound below one.
        return {**form, "max_whitespace_cnt": MOST_BLANKS if form.get("style", "json") == "json" else 1}
    return {name: _bound(entry) for name, entry in form.items()}
