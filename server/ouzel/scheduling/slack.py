"""Playback slack and credits: how much audio a listener has ahead, and how many frames may still be made for it.

All times are seconds of one monotonic clock, given in as `now`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Credits", "PlaybackCursor", "Runway", "granted_frames", "may_prefill"]

FRAME_S = 0.080


@dataclass(slots=True)
class PlaybackCursor:
    """Follows a listener who plays from the first delivery on and waits wherever the audio comes late."""

    #: When the audio delivered so far will have played; None before the first delivery.
    heard_until: float | None = None
    delivered_frames: int = 0
    gaps_s: list[float] = field(default_factory=list)

    def deliver(self, frames: int, now: float) -> float:
        """Note the arrival of `frames` frames; answers the silence in seconds that came before them."""
        gap = 0.0 if self.heard_until is None else max(0.0, now - self.heard_until)
        if gap:
            self.gaps_s.append(gap)
        start = now if self.heard_until is None else max(self.heard_until, now)
        self.heard_until = start + frames * FRAME_S
        self.delivered_frames += frames
        return gap

    def slack(self, now: float) -> float:
        """Seconds of audio that the listener still has, negative in a gap; infinite before playback starts."""
        return math.inf if self.heard_until is None else self.heard_until - now

    def played_frames(self, now: float) -> int:
        """Whole frames that the listener has heard."""
        if self.heard_until is None:
            return 0
        ahead = max(0.0, self.heard_until - now)
        return max(0, self.delivered_frames - math.ceil(round(ahead / FRAME_S, 6)))


@dataclass(slots=True)
class Credits:
    """How many frames a stream may still make: what its consumer has granted, less what was made."""

    granted: int
    made: int = 0

    @property
    def available(self) -> int:
        return max(0, self.granted - self.made)

    def grant(self, total: int) -> None:
        """Take a new total; an older one that arrives late changes nothing."""
        self.granted = max(self.granted, total)


def granted_frames(drained: int, buffer_frames: int) -> int:
    """What the consumer grants in all: what it has passed on to its client, plus the buffer that it keeps for it."""
    return drained + buffer_frames


@dataclass(frozen=True, slots=True)
class Runway:
    """A running stream as the prefill throttle sees it."""

    #: Seconds of audio that its listener still has (`PlaybackCursor.slack`).
    slack_s: float
    #: Seconds until its next chunk is audible, if nothing comes in between.
    next_chunk_s: float


def may_prefill(
    streams: Iterable[Runway], piece_s: float, *, margin_s: float, waited_s: float = 0.0, max_hold_s: float = math.inf
) -> bool:
    """Whether a piece of prefill that takes `piece_s` may run now.

    It is held back while it would leave a running stream less than `margin_s` of audio when its next chunk comes, but
    no longer than `max_hold_s`: a device that is always short would otherwise never start anyone.
    """
    if waited_s >= max_hold_s:
        return True
    return all(stream.slack_s >= stream.next_chunk_s + piece_s + margin_s for stream in streams)
