from __future__ import annotations

import asyncio
import builtins
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel_client.errors import OutputError
from ouzel_client.playback import Callback, Player, RingBuffer, device_rate, list_devices


@given(st.lists(st.tuples(st.binary(max_size=12), st.integers(0, 12))), st.integers(1, 10))
def test_the_ring_gives_what_it_took_in_order(turns: list[tuple[bytes, int]], capacity: int) -> None:
    ring, taken, given_back = RingBuffer(capacity), bytearray(), bytearray()
    for data, wanted in turns:
        taken += data[: ring.write(memoryview(data))]
        out = bytearray(wanted)
        given_back += out[: ring.read_into(memoryview(out))]
        assert ring.filled == len(taken) - len(given_back) <= capacity
    assert taken.startswith(given_back)


class FakeDevice:
    """A sound device whose time is the test's."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.state = "closed"
        self.sample_rate = 0

    def __call__(self, sample_rate: int, device: str | int | None, callback: Callback) -> FakeDevice:
        self._callback, self.sample_rate, self.state = callback, sample_rate, "open"
        return self

    def start(self) -> None:
        self.state = "playing"

    def stop(self) -> None:
        self.state = "stopped"

    def close(self) -> None:
        self.state = "closed"

    def ask(self, frames: int) -> bytes:
        out = bytearray(b"\x55" * 2 * frames)
        self._callback(out, frames, None, None)
        self.heard += out
        return bytes(out)


async def test_samples_are_played_and_silence_where_none_came() -> None:
    device = FakeDevice()
    player = Player(24_000, open_output=device)
    assert device.state == "open"
    await player.play(b"\x01\x02\x03\x04")
    assert device.state == "playing"
    assert device.ask(1) == b"\x01\x02"
    assert device.ask(2) == b"\x03\x04\x00\x00"
    assert player.underruns == 1
    await player.play(b"\x05\x06")
    drained = asyncio.create_task(player.drain())
    await asyncio.sleep(0)
    assert device.ask(3) == b"\x05\x06\x00\x00\x00\x00"
    await drained
    assert player.underruns == 1
    player.close()
    assert device.state == "closed"


async def test_an_odd_byte_waits_for_its_other_half() -> None:
    device = FakeDevice()
    player = Player(24_000, open_output=device)
    await player.play(b"\x01\x02\x03")
    assert device.ask(2) == b"\x01\x02\x00\x00"
    await player.play(b"\x04\x05\x06")
    assert device.ask(2) == b"\x03\x04\x05\x06"


async def test_a_full_ring_makes_the_network_wait() -> None:
    device = FakeDevice()

    async def sleep(_: float) -> None:
        device.ask(8)

    player = Player(8, open_output=device, seconds=2, sleep=sleep)
    data = bytes(range(200))
    await player.play(data)
    await player.drain()
    assert bytes(device.heard).startswith(data)


class FakeSound:
    """The package, as far as devices go: one that plays 48 kHz only."""

    class PortAudioError(Exception):
        pass

    class default:
        device = (0, 1)

    def __init__(self, rates: tuple[int, ...] = (48_000,)) -> None:
        self._rates = rates

    def check_output_settings(self, device: Any, channels: int, dtype: str, samplerate: int) -> None:
        if device == "HDMI 9":
            raise ValueError("No output device matching 'HDMI 9'")
        if samplerate not in self._rates:
            raise self.PortAudioError("Invalid sample rate [PaErrorCode -9997]")

    def query_devices(self) -> list[dict[str, Any]]:
        return [
            {"name": "Microphone", "max_output_channels": 0, "default_samplerate": 48_000.0},
            {"name": "Speakers", "max_output_channels": 2, "default_samplerate": 44_100.0},
            {"name": "HDMI", "max_output_channels": 8, "default_samplerate": 48_000.0},
        ]


def test_a_device_that_cannot_do_the_voices_rate_gets_its_own() -> None:
    assert device_rate(None, FakeSound((24_000, 48_000))) == 24_000
    assert device_rate(None, FakeSound()) == 48_000
    with pytest.raises(OutputError, match="plays none of 24000, 48000"):
        device_rate(None, FakeSound(()))
    with pytest.raises(OutputError, match="there is no sound device 'HDMI 9'"):
        device_rate("HDMI 9", FakeSound())


def test_devices_that_play_are_listed_and_the_default_one_marked() -> None:
    assert list_devices(FakeSound()) == ["*   1  Speakers  (44100 Hz)", "    2  HDMI  (48000 Hz)"]


@pytest.mark.parametrize(
    ("failure", "words"),
    [(OSError("PortAudio library not found"), "apt install libportaudio2"), (ImportError("no module"), "ouzel.client")],
)
def test_without_a_sound_library_there_is_a_hint(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, words: str
) -> None:
    real = builtins.__import__

    def without_sound(name: str, *rest: Any) -> Any:
        if name == "sounddevice":
            raise failure
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_sound)
    for needing in (list_devices, lambda: device_rate(None), lambda: Player(24_000)):
        with pytest.raises(OutputError, match=words):
            needing()
