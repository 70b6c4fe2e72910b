"""The condition of the server at one moment, by value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ouzel.orchestrator.language import LanguageStatus
from ouzel.orchestrator.pace import DevicePace, describe
from ouzel.scheduling import SchedulePlan
from ouzel.stages.supervisor import StageStatus

__all__ = ["Health"]


@dataclass(frozen=True, slots=True)
class Health:
    """How it is, for a person and for a watchdog."""

    #: degraded: a stage is being started again
    state: Literal["stopped", "loading", "ready", "degraded"]
    stages: Mapping[str, StageStatus]
    #: requests that are open, and how many may be
    open_requests: int
    most_requests: int
    placement: str
    #: of the newest sound; None before the first, and for a voice that can't speak without a request's own wishes
    pace: DevicePace | None
    #: what requests are served with that ask for nothing else; `reason` says why it isn't the profile's
    plan: SchedulePlan | None
    #: of the language model; None where none is served. It is no part of `state`: speech serves without it.
    language: LanguageStatus | None = None

    @property
    def ready(self) -> bool:
        return self.state == "ready"

    @property
    def pace_line(self) -> str:
        """One line: how fast the device is, beside what its schedule tolerates."""
        return "the pace isn't measured" if self.pace is None or self.plan is None else describe(self.pace, self.plan)

    def to_json(self) -> dict[str, Any]:
        """As JSON: times in ms and s as their names say."""
        plan = self.plan
        return {
            "state": self.state,
            "stages": {name: asdict(status) for name, status in self.stages.items()},
            "open_requests": self.open_requests,
            "most_requests": self.most_requests,
            "placement": self.placement,
            "step_ms": self.pace and self.pace.step_ms,
            "decode_ms": self.pace and self.pace.decode_ms,
            "stall_free_step_ms": plan and plan.tolerated_ms,
            "chunk_frames": plan and list(plan.schedule.sizes),
            "start_delay_ms": plan and plan.start_delay_ms,
            "first_audio_ms": plan and plan.first_audio_ms,
            "reason": plan and plan.reason,
            "language": self.language and self.language.to_json(),
        }
