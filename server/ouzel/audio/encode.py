"""Samples to the bytes of a format while they are being made. Blocking: an event loop calls this in a thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, cast

import av
import numpy as np
from numpy.typing import NDArray

from ouzel.audio.wav import pcm16, wav_header

__all__ = ["Encoder", "exact_wav", "make_encoder"]


class Encoder(Protocol):
    """One stream's encoder; all bytes joined are a whole file."""

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        """What is certain after these samples; may be nothing."""
        ...

    def finish(self) -> bytes:
        """The rest; nothing may follow."""
        ...


def make_encoder(name: str, sample_rate: int) -> Encoder:
    """The encoder of a format of `formats.FORMATS`; the first bytes come with the first samples."""
    if name in _CONTAINERS:
        return _ContainerEncoder(_CONTAINERS[name], sample_rate)
    return _PcmEncoder(wav_header(sample_rate) if name == "wav" else b"")


def exact_wav(data: bytes, sample_rate: int) -> bytes:
    """PCM with a header that says its true size."""
    return wav_header(sample_rate, len(data)) + data


class _PcmEncoder:
    """16-bit PCM, after a header where the format has one."""

    def __init__(self, header: bytes) -> None:
        self._header = header

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        header, self._header = self._header, b""
        return header + pcm16(samples)

    def finish(self) -> bytes:
        header, self._header = self._header, b""
        return header


@dataclass(frozen=True, slots=True)
class _Container:
    """How FFmpeg's libraries write a format."""

    format: str
    codec: str
    bit_rate: int | None
    #: of the muxer and of the codec
    options: dict[str, str] = field(default_factory=dict)
    codec_options: dict[str, str] = field(default_factory=dict)


_CONTAINERS = {
    # No Xing frame and no tag: a stream has neither its length nor a title.
    "mp3": _Container("mp3", "libmp3lame", 64_000, {"write_xing": "0", "id3v2_version": "0"}),
    # A page of Ogg lasts a second by default, and would be waited for.
    "opus": _Container("ogg", "libopus", 32_000, {"page_duration": "20000"}, {"frame_duration": "20"}),
    "aac": _Container("adts", "aac", 64_000),
    # Blocks of one codec frame, so that none waits for the next; eight kilobytes of padding left out.
    "flac": _Container("flac", "flac", None, {"metadata_header_padding": "0"}, {"frame_size": "1920"}),
}


class _ContainerEncoder:
    """A container written into memory, and handed out as it grows."""

    def __init__(self, container: _Container, sample_rate: int) -> None:
        self._sink = _Sink()
        self._rate = sample_rate
        self._position = 0
        options = {"flush_packets": "1", "fflags": "+bitexact", **container.options}
        self._output = av.open(self._sink, "w", format=container.format, container_options=options)
        stream = self._output.add_stream(container.codec, rate=sample_rate, options=dict(container.codec_options))
        self._stream = cast(av.AudioStream, stream)
        self._stream.codec_context.layout = "mono"
        if container.bit_rate is not None:
            self._stream.codec_context.bit_rate = container.bit_rate

    def encode(self, samples: NDArray[np.float32]) -> bytes:
        # samples: [n] float32
        if not len(samples):
            return b""
        # All formats begin at the same 16-bit numbers, so a lossless one equals PCM.
        numbers = np.frombuffer(pcm16(samples), "<i2")
        frame = av.AudioFrame.from_ndarray(numbers[None, :], format="s16", layout="mono")
        frame.sample_rate = self._rate
        frame.pts = self._position
        self._position += len(numbers)
        self._output.mux(self._stream.encode(frame))
        return self._sink.take()

    def finish(self) -> bytes:
        if not self._position:
            # FFmpeg's encoders write no file at all without a sample.
            return self.encode(np.zeros(1, np.float32)) + self.finish()
        self._output.mux(self._stream.encode(None))
        self._output.close()
        return self._sink.take()


class _Sink:
    """Write only: a muxer that cannot seek writes what a stream needs."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes) -> int:
        self._data += data
        return len(data)

    def take(self) -> bytes:
        data = bytes(self._data)
        self._data.clear()
        return data
