"""From a voice's samples to a request's bytes: tempo, then rate, then format. Blocking, as each part is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ouzel.audio.encode import exact_wav, make_encoder
from ouzel.audio.formats import Format
from ouzel.audio.resample import Resampler
from ouzel.audio.tempo import Tempo
from ouzel.audio.wav import HEADER_BYTES

__all__ = ["AudioChain", "Shape", "whole_file"]

FRAME_S = 0.080


@dataclass(frozen=True, slots=True)
class Shape:
    """How a request wants its audio."""

    format: Format
    sample_rate: int
    speed: float = 1.0

    @property
    def content_type(self) -> str:
        return self.format.content_type(self.sample_rate)


class AudioChain:
    """One stream's way out.

    Raw samples leave in whole codec frames (80 ms) until the last piece, also where tempo or rate have moved the cuts.
    """

    def __init__(self, shape: Shape, rate_in: int) -> None:
        self._rate = shape.sample_rate
        self._tempo = Tempo(shape.speed, rate_in) if shape.speed != 1 else None
        self._resampler = Resampler(rate_in, shape.sample_rate) if shape.sample_rate != rate_in else None
        self._block = round(shape.sample_rate * FRAME_S) if self._tempo or self._resampler else 1
        self._rest = np.zeros(0, np.float32)
        self._encoder = make_encoder(shape.format.name, shape.sample_rate)
        self._samples = 0

    @property
    def audio_ms(self) -> float:
        """Length of what was encoded so far."""
        return 1000 * self._samples / self._rate

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        """The bytes that are ready after these samples; may be none."""
        # samples: [n] float32 at the voice's rate
        if self._tempo:
            samples = self._tempo.process(samples)
        if self._resampler:
            samples = self._resampler.process(samples)
        samples = np.concatenate([self._rest, samples]) if len(self._rest) else samples
        whole = len(samples) - len(samples) % self._block
        self._rest = samples[whole:]
        return self._encode(samples[:whole])

    def finish(self) -> bytes:
        """The rest, and the end of the format."""
        tail = self._tempo.finish() if self._tempo else np.zeros(0, np.float32)
        if self._resampler:
            tail = np.concatenate([self._resampler.process(tail), self._resampler.finish()])
        return self._encode(np.concatenate([self._rest, tail])) + self._encoder.finish()

    def _encode(self, samples: NDArray[np.float32]) -> bytes:
        self._samples += len(samples)
        return self._encoder.encode(samples) if len(samples) else b""


def whole_file(shape: Shape, parts: list[bytes]) -> bytes:
    """What a stream sent, as one file; a WAV header with the true sizes takes the place of the stream's."""
    data = b"".join(parts)
    return exact_wav(data[HEADER_BYTES:], shape.sample_rate) if shape.format.name == "wav" else data
