"""PCM and WAV: the one place where samples become 16-bit numbers, and a file that grows while audio is made."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ouzel.errors import EngineError, OutputError

__all__ = ["HEADER_BYTES", "UNKNOWN_SIZE", "WavWriter", "pcm16", "wav_header"]

HEADER_BYTES = 44
#: of a stream whose end isn't known; readers then take whatever follows
UNKNOWN_SIZE = 0xFFFFFFFF

_FULL_SCALE = 32767
_BYTES = 2  # of a sample


def pcm16(samples: NDArray[np.floating]) -> bytes:
    """Samples in [-1, 1], of any shape, as little-endian 16-bit PCM: rounded to the nearest, clipped beyond.

    :raises EngineError: when a sample is NaN or infinite
    """
    # samples: [...] float
    if not np.isfinite(samples).all():
        raise EngineError("audio: a sample is not a finite number")
    return np.rint(np.clip(samples, -1, 1) * _FULL_SCALE).astype("<i2").tobytes()


def wav_header(sample_rate: int, data_bytes: int | None = None) -> bytes:
    """The 44 bytes before mono 16-bit PCM; without `data_bytes`, those of a stream whose length isn't known yet."""
    riff, data = (UNKNOWN_SIZE, UNKNOWN_SIZE) if data_bytes is None else (data_bytes + HEADER_BYTES - 8, data_bytes)
    layout = (1, 1, sample_rate, sample_rate * _BYTES, _BYTES, 8 * _BYTES)  # PCM, one channel, …
    return struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", riff, b"WAVE", b"fmt ", 16, *layout, b"data", data)


class WavWriter:
    """A mono 16-bit WAV file, on disk chunk by chunk while its audio is being made.

    It begins with the header of a stream; `close` writes the true sizes over it where the file can be rewritten.
    """

    def __init__(self, path: str | os.PathLike[str], sample_rate: int = 24_000) -> None:
        """Create or overwrite `path` and write the header.

        :raises OutputError: when it cannot be written: no such folder, no permission, no space
        """
        self._path = os.fspath(path)
        self._sample_rate = sample_rate
        self._data_bytes = 0
        with self._output_errors():
            self._file = open(self._path, "wb", buffering=0)  # noqa: SIM115 - closed by `close`
        with self._closing_on_error():
            self._write(wav_header(sample_rate))

    @property
    def seconds(self) -> float:
        """Audio written so far."""
        return self._data_bytes / (_BYTES * self._sample_rate)

    def write(self, samples: NDArray[np.floating]) -> None:
        """Append samples in [-1, 1]; they are with the file system when this returns.

        :raises OutputError: when there is no space; what was written before stays, as a WAV file
        :raises EngineError: when a sample is NaN or infinite
        """
        # samples: [...] float
        data = pcm16(samples)
        with self._closing_on_error():
            self._write(data)
        self._data_bytes += len(data)

    def close(self) -> None:
        """Write the true sizes into the header and close; closing twice is harmless.

        :raises OutputError: when the header cannot be rewritten
        """
        if self._file.closed:
            return
        with self._output_errors(), self._file:
            file = self._file.fileno()
            if stat.S_ISREG(os.fstat(file).st_mode):
                os.ftruncate(file, HEADER_BYTES + self._data_bytes)  # half a chunk, where the disk became full
                os.pwrite(file, wav_header(self._sample_rate, self._data_bytes), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]

    @contextmanager
    def _output_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(f"{self._path} cannot be written: {error.strerror}", param="output") from error

    @contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        try:
            with self._output_errors():
                yield
        except OutputError:
            self.close()
            raise
