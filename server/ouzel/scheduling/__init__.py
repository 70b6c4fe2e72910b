"""Pure decisions: when a chunk leaves, who may start, what is asked of a device. No torch, process, socket, asyncio."""

from __future__ import annotations

from ouzel.scheduling.chunks import ChunkSchedule
from ouzel.scheduling.deadlines import ProgressDeadline, next_expiry
from ouzel.scheduling.derive import Overrides, derive_overrides
from ouzel.scheduling.kv import SENTENCE_TOKENS, Admission, KvBudget, KvGeometry, kv_budget
from ouzel.scheduling.limits import FRAMES_PER_SECOND, frame_limit
from ouzel.scheduling.pace import (
    FRAME_MS,
    Playback,
    SchedulePlan,
    fit_schedule,
    gentler,
    simulate,
    stall_free_step_ms,
)
from ouzel.scheduling.slack import Credits, PlaybackCursor, Runway, granted_frames, may_prefill

__all__ = [
    "SENTENCE_TOKENS",
    "FRAMES_PER_SECOND",
    "FRAME_MS",
    "Admission",
    "ChunkSchedule",
    "Credits",
    "KvBudget",
    "KvGeometry",
    "Overrides",
    "Playback",
    "PlaybackCursor",
    "ProgressDeadline",
    "Runway",
    "SchedulePlan",
    "derive_overrides",
    "fit_schedule",
    "frame_limit",
    "gentler",
    "granted_frames",
    "kv_budget",
    "may_prefill",
    "next_expiry",
    "simulate",
    "stall_free_step_ms",
]
