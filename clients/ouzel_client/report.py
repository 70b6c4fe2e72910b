"""What `--timing` prints: where the milliseconds of each chunk went, and of the whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

__all__ = ["FRAME_MS", "Report"]

FRAME_MS = 80.0


@dataclass(slots=True)
class Report:
    """Collects an utterance's timings."""

    first_audio_ms: float | None = None
    #: from the request to the newest piece of audio
    audio_ms: float = 0.0
    frames: int = 0
    phases_ms: Counter[str] = field(default_factory=Counter)
    starved_ms: float = 0.0
    gaps_ms: float = 0.0

    def heard(self, since_ms: float) -> None:
        """Audio came, so long after the request."""
        self.audio_ms = since_ms
        if self.first_audio_ms is None:
            self.first_audio_ms = since_ms

    def add(self, timing: dict[str, Any]) -> str:
        """Count a chunk; answers its line."""
        self.frames += timing["frames"]
        self.phases_ms.update(timing["phases_ms"])
        self.starved_ms += timing["starved_ms"]
        self.gaps_ms += timing["gap_ms"]
        cause = " waited for text" if timing["starved_ms"] > timing["used_ms"] else ""
        phases = "  ".join(f"{name} {ms:.1f}" for name, ms in timing["phases_ms"].items())
        late = f"  GAP {timing['gap_ms']:.0f}{cause}" if timing["gap_ms"] >= 1 else ""
        return (
            f"frame {timing['frame']:>4} +{timing['frames']:<3} "
            f"{timing['used_ms']:>7.1f} of {timing['budget_ms']:.0f} ms  {phases}{late}"
        )

    def lines(self) -> list[str]:
        """The whole, in ms a frame and in shares of its 80 ms."""
        if not self.frames:
            return ["no frame was made"]
        rows = [(name, ms / self.frames) for name, ms in self.phases_ms.items()]
        rows.append(("all", sum(ms for _, ms in rows)))
        table = [f"{name:<12}{ms:>9.3f}{100 * ms / FRAME_MS:>8.1f} %" for name, ms in rows]
        first = "none" if self.first_audio_ms is None else f"{self.first_audio_ms:.0f} ms"
        return [
            f"{'ms a frame':<12}{'':>9}{'of 80 ms':>10}",
            *table,
            f"first audio {first}, real-time factor {self.audio_ms / (FRAME_MS * self.frames):.3f}, "
            f"{self.frames} frames, gaps {self.gaps_ms:.0f} ms, "
            f"waiting for text {self.starved_ms:.0f} ms",
        ]
