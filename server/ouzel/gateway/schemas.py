"""The speech request in OpenAPI's words; its body is read by us and not by the framework."""

from __future__ import annotations

from typing import Any

from ouzel.audio.formats import FORMATS
from ouzel.gateway.wishes import SpeechRequest

__all__ = ["SPEECH_SCHEMA"]


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """A schema that refers to nothing outside itself."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
        return {name: _inlined(part, definitions) for name, part in schema.items() if name != "$defs"}
    return [_inlined(part, definitions) for part in schema] if isinstance(schema, list) else schema


def _speech_schema() -> dict[str, Any]:
    schema = SpeechRequest.model_json_schema()
    audio = {one.media_type: {"schema": {"type": "string", "format": "binary"}} for one in FORMATS.values()}
    events = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _inlined(schema, schema.get("$defs", {}))}},
        },
        "responses": {"200": {"description": "Audio, while it is made.", "content": audio | events}},
    }


SPEECH_SCHEMA = _speech_schema()
