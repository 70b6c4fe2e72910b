"""Speed without change of pitch, by libav's `atempo` filter, in a stream."""

from __future__ import annotations

from typing import cast

import av
import av.filter
import numpy as np
from numpy.typing import NDArray

from ouzel.errors import RequestError

__all__ = ["FASTEST", "SLOWEST", "Tempo", "check_speed"]

SLOWEST, FASTEST = 0.25, 4.0
_SLOWEST_FILTER = 0.5  # of one atempo; two of them in a row for less
_EMPTY = np.zeros(0, np.float32)


def check_speed(speed: float, *, param: str = "speed") -> float:
    """:raises RequestError: when `speed` is outside 0.25 to 4."""
    if not SLOWEST <= speed <= FASTEST:
        raise RequestError(f"{param}: {speed:g} is outside {SLOWEST:g} to {FASTEST:g}", param=param)
    return speed


class Tempo:
    """Makes speech `speed` times as fast; its length becomes 1/speed within a filter window."""

    def __init__(self, speed: float, sample_rate: int) -> None:
        """:param speed: from 0.25 to 4 (`check_speed`)"""
        self._rate = sample_rate
        self._position = 0
        stages = [speed] if speed >= _SLOWEST_FILTER else [_SLOWEST_FILTER, speed / _SLOWEST_FILTER]
        self._graph = av.filter.Graph()
        self._source = self._graph.add_abuffer(format="flt", sample_rate=sample_rate, layout="mono")
        last = self._source
        for stage in [*(self._graph.add("atempo", f"{stage:.6f}") for stage in stages), self._graph.add("abuffersink")]:
            last.link_to(stage)
            last = stage
        self._end = last
        self._graph.configure()

    def process(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        # samples: [n] float32
        if not len(samples):
            return _EMPTY
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples[None, :]), format="flt", layout="mono")
        frame.sample_rate = self._rate
        frame.pts = self._position
        self._position += len(samples)
        self._source.push(frame)
        return self._pull()

    def finish(self) -> NDArray[np.float32]:
        """What the filter still holds."""
        if not self._position:
            return _EMPTY
        self._source.push(None)
        return self._pull()

    def _pull(self) -> NDArray[np.float32]:
        parts = []
        while True:
            try:
                frame = cast(av.AudioFrame, self._end.pull())
            except (av.BlockingIOError, av.EOFError):
                break
            parts.append(frame.to_ndarray()[0].astype(np.float32, copy=False))
        return np.concatenate(parts) if parts else _EMPTY
