"""What the gateway needs of whoever writes the text. The orchestrator gives it, and a fake in the tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from ouzel.orchestrator.language import LanguageStatus
from ouzel.stages.language import LanguageRequest, TextDelta

__all__ = ["LanguageModel"]


class LanguageModel(Protocol):
    """Text, one request at a time or many."""

    def generate(self, request: LanguageRequest, request_id: str) -> AsyncGenerator[TextDelta, None]:
        """Deltas as they are made; the last has the request's usage. Closing the generator aborts.

        :raises RequestError: when it cannot be served: the template's own complaint, too long for the context
        :raises BusyError, NotReadyError: at the first pull
        :raises OuzelError: what ended it, after its last text
        """

    def status(self) -> LanguageStatus:
        """Its condition, without waiting."""
