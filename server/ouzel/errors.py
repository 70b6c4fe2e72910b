"""Every error that Ouzel raises on purpose, and how each one leaves the process.

    OuzelError                   HTTP  WS    exit
    ├── RequestError             400   1008  2     the request is wrong: which field, its value, what would be valid
    │   └── TextTooLongError     400   1009  2     the text is longer than one request may be
    ├── BodyTooLargeError        413   1009  2     a request's body has more bytes than are taken
    ├── SlowBodyError            408   1011  1     a request's body didn't come in time
    ├── AuthError                401   1008  3     no key, or a wrong one
    ├── NotFoundError            404   1008  2     no such voice or model
    ├── BusyError                429   1013  4     the queue is at its bound; the same request may succeed later
    ├── NotReadyError            503   1013  4     still loading, or a stage is being restarted
    ├── CheckpointError          500   1011  5     a checkpoint file is missing or torn: which one, what was expected
    ├── ConfigError              500   1011  6     a deploy profile or a setting is wrong
    ├── EngineError              500   1011  1     a fault inside a stage; it ends its own request and no other
    └── OutputError              500   1011  7     an output file or a sound device cannot be written

A message names the field or file, the value found and what would be valid, so that it can be shown as it is.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AuthError",
    "BodyTooLargeError",
    "BusyError",
    "CheckpointError",
    "ConfigError",
    "EngineError",
    "NotFoundError",
    "NotReadyError",
    "OutputError",
    "OuzelError",
    "RequestError",
    "SlowBodyError",
    "TextTooLongError",
]


class OuzelError(Exception):
    """Base of the tree; `param` names the request field or setting at fault, where there is one."""

    status: ClassVar[int] = 500
    ws_close: ClassVar[int] = 1011
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param

    def __reduce__(self) -> tuple[object, ...]:
        # The default would rebuild from the message alone and lose `param` on the way between processes.
        return _rebuild, (type(self), str(self), self.param)


def _rebuild(kind: type[OuzelError], message: str, param: str | None) -> OuzelError:
    return kind(message, param=param)


class RequestError(OuzelError):
    """The request is wrong and would be wrong again: a field, its value, what would be valid."""

    status = 400
    ws_close = 1008
    exit_code = 2


class TextTooLongError(RequestError):
    """The text has more letters than one request may have."""

    ws_close = 1009


class BodyTooLargeError(OuzelError):
    """The body of a request has more bytes than one may have."""

    status = 413
    ws_close = 1009
    exit_code = 2


class SlowBodyError(OuzelError):
    """The body of a request didn't come in time."""

    status = 408


class AuthError(OuzelError):
    """The key is missing or wrong."""

    status = 401
    ws_close = 1008
    exit_code = 3


class NotFoundError(OuzelError):
    """The named voice or model doesn't exist here."""

    status = 404
    ws_close = 1008
    exit_code = 2


class BusyError(OuzelError):
    """The queue is at its bound; the same request may succeed later."""

    status = 429
    ws_close = 1013
    exit_code = 4


class NotReadyError(OuzelError):
    """The server is loading, or a stage is being restarted."""

    status = 503
    ws_close = 1013
    exit_code = 4


class CheckpointError(OuzelError):
    """A file of a checkpoint is missing or torn: which one, and what was expected in it."""

    exit_code = 5


class ConfigError(OuzelError):
    """A deploy profile or a setting is wrong."""

    exit_code = 6


class EngineError(OuzelError):
    """A fault inside a stage. It ends its own request and no other."""


class OutputError(OuzelError):
    """An output file or a sound device cannot be written."""

    exit_code = 7
