"""A conversation as OpenAI's chat completions have it, checked and in the form that chat templates read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from ouzel.errors import RequestError

__all__ = ["read_messages"]

#: role → as templates call it; `developer` is OpenAI's newer word for `system`
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
#: kind of a content part → where its text is
_TEXTS = {"text": "text", "refusal": "refusal"}


def read_messages(given: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """The messages with their text in one piece, without what no template knows.

    :raises RequestError: for the first that is wrong; the message says where
    """
    if not given:
        _refuse("messages", "at least one is needed")
    return tuple(_message(one, f"messages[{at}]") for at, one in enumerate(given))


def _message(given: Any, where: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        _refuse(where, f"an object with role and content is needed, not {type(given).__name__}")
    role = given.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        _refuse(f"{where}.role", f"{role!r} is no role; valid are {', '.join(_ROLES)}")
    message: dict[str, Any] = {"role": _ROLES[role]}
    if role == "assistant":
        message |= _assistant(given, where)
    elif given.get("content") is None:
        _refuse(f"{where}.content", f"the text of a {role} message is needed")
    else:
        message["content"] = _text(given["content"], f"{where}.content")
    if role == "tool":
        message["tool_call_id"] = _string(given, "tool_call_id", where)
    if given.get("name") is not None:
        message["name"] = _string(given, "name", where)
    return message


def _assistant(given: dict[str, Any], where: str) -> dict[str, Any]:
    """What the model said earlier: a text, its thoughts, calls of tools."""
    for name in ("audio", "function_call"):
        if given.get(name):
            _refuse(f"{where}.{name}", "not served here; send the text as content, or tool_calls")
    content = given.get("content")
    said: dict[str, Any] = {"content": "" if content is None else _text(content, f"{where}.content")}
    if given.get("reasoning_content") is not None:
        said["reasoning_content"] = _string(given, "reasoning_content", where)
    calls = given.get("tool_calls")
    if calls:
        if not isinstance(calls, list):
            _refuse(f"{where}.tool_calls", f"a list is needed, not {type(calls).__name__}")
        said["tool_calls"] = [_call(one, f"{where}.tool_calls[{at}]") for at, one in enumerate(calls)]
    return said


def _call(given: Any, where: str) -> dict[str, Any]:
    if not isinstance(given, dict) or given.get("type", "function") != "function":
        _refuse(where, "a call of a function is needed: type, id, function")
    function = given.get("function")
    if not isinstance(function, dict):
        _refuse(f"{where}.function", "an object with name and arguments is needed")
    called = {name: _string(function, name, f"{where}.function") for name in ("name", "arguments")}
    return {"id": _string(given, "id", where), "type": "function", "function": called}


def _text(given: Any, where: str) -> str:
    """A text, or parts that are texts, joined."""
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        _refuse(where, f"a text or a list of parts is needed, not {type(given).__name__}")
    return "".join(_part(one, f"{where}[{at}]") for at, one in enumerate(given))


def _part(given: Any, where: str) -> str:
    if not isinstance(given, dict):
        _refuse(where, f"an object with type and text is needed, not {type(given).__name__}")
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in _TEXTS:
        _refuse(where, f"parts of type {kind!r} aren't served here; text is")
    return _string(given, _TEXTS[kind], where)


def _string(given: dict[str, Any], name: str, where: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        _refuse(f"{where}.{name}", f"a text is needed, not {type(value).__name__}")
    return value


def _refuse(where: str, why: str) -> NoReturn:
    raise RequestError(f"{where}: {why}", param=where)
