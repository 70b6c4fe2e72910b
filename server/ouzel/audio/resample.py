"""Another sample rate, in a stream: the chunks joined are what one pass over the whole would give."""

from __future__ import annotations

import numpy as np
import soxr
from numpy.typing import NDArray

__all__ = ["Resampler"]


class Resampler:
    """From one rate to another, mono."""

    def __init__(self, rate_in: int, rate_out: int) -> None:
        self._stream = soxr.ResampleStream(rate_in, rate_out, 1, dtype="float32")

    def process(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        # samples: [n] float32
        return np.asarray(self._stream.resample_chunk(samples), np.float32)

    def finish(self) -> NDArray[np.float32]:
        """What the filter still holds."""
        return np.asarray(self._stream.resample_chunk(np.zeros(0, np.float32), last=True), np.float32)
