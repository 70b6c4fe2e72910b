"""Errors as clients see them: one JSON object for every kind, over HTTP and inside a stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from ouzel.errors import AuthError, BusyError, NotReadyError, OuzelError

__all__ = ["Json", "error_body", "error_code", "error_reply", "http_error_reply", "model_warning"]

_OF_STATUS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    503: "unavailable_error",
}
_RETRY_AFTER_S = 1


class Json(Response):
    """JSON in ASCII: half a surrogate pair in a client's own words must not break the answer about them."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":")).encode()


def error_code(error: OuzelError) -> str:
    """The kind of an error, for programs."""
    return _kind(error.status)


def error_body(error: OuzelError) -> dict[str, object]:
    return _body(str(error), error_code(error), error.param, error.status)


def error_reply(error: OuzelError) -> Json:
    """The reply to a request that failed before any of its audio was sent."""
    headers = {"Retry-After": str(_RETRY_AFTER_S)} if isinstance(error, BusyError | NotReadyError) else {}
    if isinstance(error, AuthError):
        headers["WWW-Authenticate"] = "Bearer"
    return Json(error_body(error), error.status, headers)


def http_error_reply(status: int, message: str | None = None, headers: Mapping[str, str] | None = None) -> Json:
    """The reply to what HTTP itself refuses: no such route, no such method, too large a body."""
    message = message or HTTPStatus(status).phrase
    return Json(_body(message, _kind(status), None, status), status, dict(headers or {}))


def model_warning(asked: str | None, served: str) -> dict[str, str]:
    """A header for whoever asked for another model than the one that serves."""
    if asked is None or asked == served:
        return {}
    return {"Warning": f"199 ouzel {json.dumps(f'model {asked} is not loaded; {served} serves')}"}


def _kind(status: int) -> str:
    return _OF_STATUS.get(status, "invalid_request_error" if status < 500 else "server_error")


def _body(message: str, kind: str, param: str | None, status: int) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}
