"""The formats that speech is sent in: their names on the wire, and the sample rates that each can carry."""

from __future__ import annotations

from dataclasses import dataclass

from ouzel.errors import RequestError

__all__ = ["FORMATS", "SAMPLE_RATES", "Format", "find_format"]

#: of the resampler and of every container that doesn't say otherwise
SAMPLE_RATES = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_OPUS_RATES = (8_000, 16_000, 24_000, 48_000)


@dataclass(frozen=True, slots=True)
class Format:
    """One output format."""

    #: as a request names it
    name: str
    #: without parameters; PCM's rate is added where it is sent
    media_type: str
    rates: tuple[int, ...] = SAMPLE_RATES

    def content_type(self, sample_rate: int) -> str:
        """The Content-Type of a body; raw samples say how to read them."""
        return f"{self.media_type}; rate={sample_rate}; channels=1" if self.name == "pcm" else self.media_type

    def check_rate(self, sample_rate: int, *, param: str = "sample_rate") -> int:
        """:raises RequestError: when the format cannot carry that rate; the message lists those that it can."""
        if sample_rate not in self.rates:
            valid = ", ".join(map(str, self.rates))
            raise RequestError(
                f"{param}: {sample_rate} Hz isn't possible in {self.name}; valid are {valid}", param=param
            )
        return sample_rate


FORMATS = {
    one.name: one
    for one in (
        Format("mp3", "audio/mpeg"),
        Format("opus", "audio/opus", _OPUS_RATES),
        Format("aac", "audio/aac"),
        Format("flac", "audio/flac"),
        Format("wav", "audio/wav"),
        Format("pcm", "audio/pcm"),
    )
}


def find_format(name: str, *, param: str = "response_format") -> Format:
    """:raises RequestError: when there is no such format; the message lists them all."""
    if name not in FORMATS:
        raise RequestError(f"{param}: {name!r} is no format here; valid are {', '.join(FORMATS)}", param=param)
    return FORMATS[name]
