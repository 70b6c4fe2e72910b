"""Ouzel: a single-device server that speaks while it is still thinking.

Names load on first use, so `import ouzel` costs nothing and brings neither torch nor vLLM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ouzel.errors import (
        AuthError,
        BusyError,
        CheckpointError,
        ConfigError,
        EngineError,
        NotFoundError,
        NotReadyError,
        OutputError,
        OuzelError,
        RequestError,
        TextTooLongError,
    )
    from ouzel.orchestrator import AsyncOmni, AudioChunk, Health, Omni

__version__ = "0.1.0"

__all__ = [
    "AsyncOmni",
    "AudioChunk",
    "AuthError",
    "BusyError",
    "CheckpointError",
    "ConfigError",
    "EngineError",
    "Health",
    "NotFoundError",
    "NotReadyError",
    "Omni",
    "OutputError",
    "OuzelError",
    "RequestError",
    "TextTooLongError",
]

_SPEAKING = ("AsyncOmni", "AudioChunk", "Health", "Omni")
_HOME = {name: "ouzel.orchestrator" if name in _SPEAKING else "ouzel.errors" for name in __all__}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'ouzel' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
