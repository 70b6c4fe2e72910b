"""Playing samples while they come: a ring of bytes between the network and the sound device's own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ouzel_client.errors import OutputError
from ouzel_client.wav import WholeSamples

__all__ = ["OpenOutput", "Output", "Player", "RingBuffer", "device_rate", "list_devices", "open_output"]

#: what our server can send
_RATES = (24_000, 48_000, 44_100, 32_000, 22_050, 16_000, 8_000)
_SAMPLE = 2
_POLL_S = 0.01
_HINT = (
    "sound needs the PortAudio library: `apt install libportaudio2` (Debian, Ubuntu), `dnf install portaudio` (Fedora);"
    " --save FILE works without"
)

Callback = Callable[[Any, int, Any, Any], None]


class RingBuffer:
    """Bytes from one thread to another; all its memory is there from the start, and neither side waits."""

    def __init__(self, capacity: int) -> None:
        self._data = memoryview(bytearray(capacity))
        self._capacity = capacity
        # Each is written by one side only.
        self._written = 0
        self._read = 0

    @property
    def filled(self) -> int:
        return self._written - self._read

    def write(self, data: memoryview) -> int:
        """Take as much as there is room for; answers how much that was."""
        count = min(len(data), self._capacity - self.filled)
        start = self._written % self._capacity
        first = min(count, self._capacity - start)
        self._data[start : start + first] = data[:first]
        self._data[: count - first] = data[first:count]
        self._written += count
        return count

    def read_into(self, out: memoryview) -> int:
        """Fill `out` as far as there is data; answers how far."""
        count = min(len(out), self.filled)
        start = self._read % self._capacity
        first = min(count, self._capacity - start)
        out[:first] = self._data[start : start + first]
        out[first:count] = self._data[: count - first]
        self._read += count
        return count


class Output(Protocol):
    """A device that calls back for samples."""

    def start(self) -> object: ...

    def stop(self) -> object: ...

    def close(self) -> object: ...


class OpenOutput(Protocol):
    def __call__(self, sample_rate: int, device: str | int | None, callback: Callback) -> Output: ...


class Player:
    """Plays 16-bit mono samples; silence where none has come in time, and a count of how often that was."""

    def __init__(
        self,
        sample_rate: int,
        device: str | int | None = None,
        *,
        open_output: OpenOutput | None = None,
        seconds: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """
        :param seconds: of audio that is held at most
        :raises OutputError: when there is no sound library, or the device cannot be opened
        """
        self._ring = RingBuffer(round(seconds * sample_rate) * _SAMPLE)
        self._silence = memoryview(bytes(round(sample_rate) * _SAMPLE))  # a second: no device asks for as much at once
        self._samples = WholeSamples()  # half a sample in the ring would turn all that follows into noise
        self._sleep = sleep
        self._ended = False
        #: callbacks that found too little while more was to come
        self.underruns = 0
        self._output = (open_output or _open_output)(sample_rate, device, self._callback)
        self._playing = False

    async def play(self, data: bytes) -> None:
        """Hand over samples; waits while the ring is full."""
        left = memoryview(self._samples.feed(data))
        while left:
            left = left[self._ring.write(left) :]
            if not self._playing:
                self._playing = True
                self._output.start()
            if left:
                await self._sleep(_POLL_S)

    async def drain(self) -> None:
        """Wait until everything was played."""
        self._ended = True
        while self._playing and self._ring.filled:
            await self._sleep(_POLL_S)

    def close(self) -> None:
        """Stop at once."""
        self._output.stop()
        self._output.close()

    def _callback(self, out: Any, frames: int, time: Any, status: Any) -> None:
        # In the device's thread: no waiting, no asyncio, nothing that grows.
        view = memoryview(out).cast("B")
        count = self._ring.read_into(view)
        if count < len(view):
            view[count:] = self._silence[: len(view) - count]
            if not self._ended:
                self.underruns += 1


def open_output(sample_rate: int, device: str | int | None, callback: Callback) -> Output:
    """The device by its number or a part of its name; None for the default one.

    :raises OutputError: when there is no sound library or no such device, or it doesn't open
    """
    sound = _sounddevice()
    try:
        output: Output = sound.RawOutputStream(
            samplerate=sample_rate, channels=1, dtype="int16", device=device, callback=callback
        )
    except (sound.PortAudioError, ValueError) as error:
        raise OutputError(f"the sound device {device or '(default)'} cannot be opened: {error}") from error
    return output


_open_output = open_output


def device_rate(device: str | int | None, sound: Any = None) -> int:
    """The first rate of ours that the device can play: the voice's own where possible.

    :raises OutputError: when there is no sound library, no such device, or no common rate
    """
    sound = sound or _sounddevice()
    for rate in _RATES:
        try:
            sound.check_output_settings(device=device, channels=1, dtype="int16", samplerate=rate)
        except ValueError as error:
            raise OutputError(f"there is no sound device {device!r}: {error}") from error
        except sound.PortAudioError:
            continue
        return rate
    raise OutputError(f"the sound device {device or '(default)'} plays none of {', '.join(map(str, _RATES))} Hz")


def list_devices(sound: Any = None) -> list[str]:
    """A line for each device that can play; the default one is marked.

    :raises OutputError: when there is no sound library
    """
    sound = sound or _sounddevice()
    default = sound.default.device[1]
    return [
        f"{'*' if number == default else ' '} {number:>3}  {one['name']}  ({one['default_samplerate']:g} Hz)"
        for number, one in enumerate(sound.query_devices())
        if one["max_output_channels"] > 0
    ]


def _sounddevice() -> Any:
    try:
        import sounddevice
    except ImportError as error:
        raise OutputError('sound needs a package: pip install "ouzel[client]"; --save FILE works without') from error
    except OSError as error:
        raise OutputError(_HINT) from error
    return sounddevice
