"""The chunk schedule: how many frames a stream collects before it hands them on.

Sizes (2, 4, 8, 16, 25) are thresholds in frames made: 2, 6, 14, 30, 55, then every 25. At a threshold everything above
the last one goes out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ouzel.config.checks import MAX_CHUNK_FRAMES, schedule_fault
from ouzel.errors import ConfigError, RequestError

__all__ = ["ChunkSchedule"]


@dataclass(frozen=True, slots=True)
class ChunkSchedule:
    """Chunk sizes in frames, never decreasing; the last one is kept for the rest of the stream.

    :raises ConfigError: when the sizes are no schedule (`config.checks.schedule_fault`).
    """

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if fault := schedule_fault(self.sizes):
            raise ConfigError(f"chunk schedule {list(self.sizes)}: {fault}")

    @classmethod
    def from_request(
        cls, sizes: Sequence[int], field: str, *, least: int = 1, most: int = MAX_CHUNK_FRAMES
    ) -> ChunkSchedule:
        """A schedule that a request asks for in `field`.

        :param least: frames of a chunk that the deployment allows; `most` those that a request may have ahead, beyond
            which no credits would fill a chunk
        :raises RequestError: when the sizes are no schedule, or outside these bounds.
        """
        fault = schedule_fault(sizes)
        if not fault and sizes[0] < least:
            fault = f"{sizes[0]} is below the {least} frames that a chunk has here at least"
        if not fault and sizes[-1] > most:
            fault = f"{sizes[-1]} is above the {most} frames that a request buffers"
        if fault:
            raise RequestError(f"{field} {list(sizes)}: {fault}", param=field)
        return cls(tuple(sizes))

    @property
    def steady(self) -> int:
        return self.sizes[-1]

    def with_minimum(self, frames: int) -> ChunkSchedule:
        """The same ramp with no chunk under `frames`."""
        return ChunkSchedule(tuple(max(frames, size) for size in self.sizes))

    def chunks(self, frames: int) -> Iterator[int]:
        """The chunk sizes of a stream of `frames` frames; the last chunk is what remains."""
        left = frames
        index = 0
        while left > 0:
            size = min(left, self.sizes[min(index, len(self.sizes) - 1)])
            yield size
            left -= size
            index += 1

    def next_threshold(self, emitted: int) -> int:
        """The first threshold above `emitted` frames."""
        thresholds = list(accumulate(self.sizes))
        index = bisect_right(thresholds, emitted)
        if index < len(thresholds):
            return thresholds[index]
        return emitted + self.steady - (emitted - thresholds[-1]) % self.steady

    def due(self, emitted: int, made: int, *, finished: bool = False) -> int:
        """How many frames go out now: all that are made, once they reach the next threshold or the stream is over.

        0 for a finished stream means a record without frames that only carries the end.
        """
        return made - emitted if finished or made >= self.next_threshold(emitted) else 0
