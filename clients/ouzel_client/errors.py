"""What can go wrong at the client's end, and the exit code of each.

ClientError
├── TextError          2   the text cannot be sent: its bytes are no UTF-8
├── ServerError        1   the server said no; 2 for a wrong request, 3 for the key, 4 for "try again later"
├── UnreachableError   4   nobody answers at that address, or the connection broke
└── OutputError        7   the file or the sound device cannot be written
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ClientError", "OutputError", "ServerError", "TextError", "UnreachableError"]

_EXIT_CODES = {
    "invalid_request_error": 2,
    "not_found_error": 2,
    "authentication_error": 3,
    "permission_error": 3,
    "rate_limit_error": 4,
    "unavailable_error": 4,
}


class ClientError(Exception):
    """Base of the tree; the message can be shown as it is."""

    exit_code = 1


class TextError(ClientError):
    """The text cannot be sent."""

    exit_code = 2


class UnreachableError(ClientError):
    """Nobody answers there, or the connection broke."""

    exit_code = 4


class OutputError(ClientError):
    """The file or the sound device cannot be written."""

    exit_code = 7


class ServerError(ClientError):
    """The server said no; `code` is the kind, for programs, and `param` the field at fault."""

    def __init__(self, message: str, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param
        self.exit_code = _EXIT_CODES.get(code, 1)

    @classmethod
    def of(cls, fields: Mapping[str, object]) -> ServerError:
        """From the error object of a reply (`type`) or of a message (`code`)."""
        code, param = fields.get("type", "error"), fields.get("param")
        if code == "error":
            code = fields.get("code", code)
        return cls(str(fields.get("message", fields)), str(code), None if param is None else str(param))
