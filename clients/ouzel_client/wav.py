"""WAV, read from a stream and written to a file while its audio comes. No library for it is needed."""

from __future__ import annotations

import wave
from types import TracebackType
from typing import Self

from ouzel_client.errors import OutputError

__all__ = ["WavFile", "WavStream", "WholeSamples"]

_UNKNOWN = 0xFFFFFFFF
_SAMPLE = 2


class WholeSamples:
    """Re-cuts bytes so that no sample is split: an odd byte is carried over to the next piece."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        data = self._rest + data
        whole = len(data) - len(data) % _SAMPLE
        self._rest = data[whole:]
        return data[:whole]


class WavStream:
    """The samples of a WAV stream: after the header, and no further than the data goes."""

    def __init__(self) -> None:
        #: Hz; 0 before the header has come
        self.sample_rate = 0
        self._head = b""
        self._left: int | None = None  # bytes of data to come; None before they begin
        self._samples = WholeSamples()

    def feed(self, data: bytes) -> bytes:
        """Whole 16-bit samples; empty while the header is incomplete, and after the data.

        :raises OutputError: when it is no mono 16-bit PCM WAV
        """
        if self._left is None:
            self._head += data
            start = self._find_data()
            if start is None:
                return b""
            data = self._head[start:]
            self._head = b""
        assert self._left is not None
        data = data[: self._left]
        self._left -= len(data)
        return self._samples.feed(data)

    def _find_data(self) -> int | None:
        """Where the samples begin; None while that needs more bytes."""
        if len(self._head) < 12:
            return None
        if self._head[:4] != b"RIFF" or self._head[8:12] != b"WAVE":
            raise OutputError("the server sent something else than a WAV file")
        place = 12
        while len(self._head) >= place + 8:
            name, size = self._head[place : place + 4], int.from_bytes(self._head[place + 4 : place + 8], "little")
            if name == b"data":
                # Of a stream nobody knows the end; others write a large number for the same.
                self._left = _UNKNOWN << 8 if size >= 2_000_000_000 else size
                return place + 8
            if name == b"fmt " and len(self._head) >= place + 24:
                self._read_format(self._head[place + 8 : place + 24])
            place += 8 + size + size % 2
        return None

    def _read_format(self, fields: bytes) -> None:
        kind, channels = int.from_bytes(fields[:2], "little"), int.from_bytes(fields[2:4], "little")
        bits = int.from_bytes(fields[14:16], "little")
        if (kind, channels, bits) != (1, 1, 16):
            raise OutputError(
                f"the server sent WAV of kind {kind}, {channels} channels, {bits} bits; 1, 1, 16 is needed"
            )
        self.sample_rate = int.from_bytes(fields[4:8], "little")


class WavFile:
    """A mono 16-bit WAV file; what was written is a whole file, also when the audio broke off."""

    def __init__(self, path: str, sample_rate: int) -> None:
        """:raises OutputError: when it cannot be written"""
        self._path = path
        self._samples = WholeSamples()
        try:
            self._file = open(path, "wb")  # noqa: SIM115 - closed by `close`
            self._wave = wave.open(self._file, "wb")  # noqa: SIM115
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from error
        self._wave.setnchannels(1)
        self._wave.setsampwidth(_SAMPLE)
        self._wave.setframerate(sample_rate)

    def write(self, data: bytes) -> None:
        """:raises OutputError: when there is no space"""
        try:
            self._wave.writeframes(self._samples.feed(data))
        except OSError as error:
            raise OutputError(f"{self._path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        self._wave.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
