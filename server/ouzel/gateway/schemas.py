"""Requests in OpenAPI's words; their bodies are read by us and not by the framework."""

from __future__ import annotations

from typing import Any

from ouzel.audio.formats import FORMATS
from ouzel.gateway.chat_wishes import ChatRequest
from ouzel.gateway.text_wishes import CompletionRequest
from ouzel.gateway.wishes import Fields, SpeechRequest

__all__ = ["CHAT_SCHEMA", "COMPLETION_SCHEMA", "SPEECH_SCHEMA"]


def _inlined(schema: Any, definitions: dict[str, Any]) -> Any:
    """A schema that refers to nothing outside itself."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
        return {name: _inlined(part, definitions) for name, part in schema.items() if name != "$defs"}
    return [_inlined(part, definitions) for part in schema] if isinstance(schema, list) else schema


def _schema(asked: type[Fields], description: str, content: dict[str, Any]) -> dict[str, Any]:
    schema = asked.model_json_schema()
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _inlined(schema, schema.get("$defs", {}))}},
        },
        "responses": {"200": {"description": description, "content": content | _EVENTS}},
    }


_EVENTS = {"text/event-stream": {"schema": {"type": "string"}}}
_AUDIO = {one.media_type: {"schema": {"type": "string", "format": "binary"}} for one in FORMATS.values()}
_TEXT = {"application/json": {"schema": {"type": "object"}}}

SPEECH_SCHEMA = _schema(SpeechRequest, "Audio, while it is made.", _AUDIO)
CHAT_SCHEMA = _schema(ChatRequest, "The answer, whole or while it is written.", _TEXT)
COMPLETION_SCHEMA = _schema(CompletionRequest, "The text, whole or while it is written.", _TEXT)
