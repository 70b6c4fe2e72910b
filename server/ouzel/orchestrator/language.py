"""A language model as the server sees it, wherever it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from ouzel.orchestrator.generation import Generation
from ouzel.stages.language import LanguageFacts, LanguageRequest
from ouzel.stats.snapshot import Snapshot
from ouzel.stats.timeline import Span

__all__ = ["Generation", "Language", "LanguageState", "LanguageStatus"]


class LanguageState(StrEnum):
    """What a language model is good for right now."""

    STOPPED = "stopped"
    LOADING = "loading"
    READY = "ready"
    RESTARTING = "restarting"  # its stage died and is started again
    FAILED = "failed"  # it couldn't be started, and stays out
    REMOTE = "remote"  # an endpoint elsewhere serves it


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageStatus:
    """A language model at one moment."""

    state: LanguageState
    #: as clients name it; empty where only an endpoint knows, that hasn't been reached yet
    model: str
    #: why it doesn't serve, or what it waits for; an endpoint's last trouble
    reason: str = ""
    #: None before it has served
    facts: LanguageFacts | None = None
    #: what its stage counts (`ouzel.stages.language.COUNTERS`)
    counters: Mapping[str, int] = field(default_factory=dict)
    restarts: int = 0
    pid: int | None = None
    #: requests that are open, and how many may be
    open_requests: int = 0
    most_requests: int = 0

    @property
    def serving(self) -> bool:
        """Whether a request makes sense now."""
        return self.state in (LanguageState.READY, LanguageState.REMOTE)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


class Language(Protocol):
    """Text, many requests at once. What happens to it is nothing to those who speak, and the other way round."""

    @property
    def spans(self) -> tuple[Span, ...]:
        """The init timeline of what runs for it here."""

    async def start(self) -> None:
        """Begin to load. Returns before it serves, and raises nothing where it never will: `status` says so."""

    async def stop(self) -> None:
        """End what is open; nothing of it is left."""

    def generate(self, request: LanguageRequest, request_id: str) -> Generation:
        """Begin to answer. The request gets a slot and an epoch of its own, whatever it has.

        :raises NotReadyError: while it loads, is started again, or has failed
        :raises BusyError: when the queue is at its bound
        :raises RequestError: when the request is too long to be handed on; what only the model knows is raised by the
            iteration
        """

    def abort(self, request_id: str) -> bool:
        """End a request with `cancelled`; False when none of this name is open, or all its text was taken."""

    def status(self) -> LanguageStatus:
        """Its condition, without waiting."""

    async def snapshots(self) -> list[Snapshot]:
        """Step statistics of whatever answers; empty where they are off."""
