"""Where audio goes: into a file, into the room, or both."""

from __future__ import annotations

from contextlib import ExitStack
from typing import BinaryIO

from ouzel_client.errors import OutputError
from ouzel_client.playback import OpenOutput, Player, open_output
from ouzel_client.session import Audio, Event, Started
from ouzel_client.wav import WavFile

__all__ = ["Sink"]


class Sink:
    """Where the audio goes: a file, the room, or both."""

    def __init__(
        self,
        path: str | None,
        suffix: str,
        *,
        playing: bool,
        device: str | int | None = None,
        open_device: OpenOutput = open_output,
    ) -> None:
        self._path = path
        self._suffix = suffix
        self._playing = playing
        self._device = device
        self._open_device = open_device
        self._wav: WavFile | None = None
        self._plain: BinaryIO | None = None
        self._player: Player | None = None

    async def take(self, event: Event) -> None:
        """:raises OutputError: when the file or the device cannot be written"""
        if isinstance(event, Started):
            self._open(event.sample_rate)
        elif isinstance(event, Audio):
            if self._wav is not None:
                self._wav.write(event.data)
            if self._plain is not None:
                self._write(self._plain, event.data)
            if self._player is not None:
                await self._player.play(event.data)

    async def finish(self) -> None:
        """Wait until the last sample was heard."""
        if self._player is not None:
            await self._player.drain()

    def close(self) -> None:
        with ExitStack() as stack:
            for one in (self._wav, self._plain, self._player):
                if one is not None:
                    stack.callback(one.close)

    def _open(self, sample_rate: int) -> None:
        if self._path is not None and self._suffix == ".wav":
            self._wav = WavFile(self._path, sample_rate)
        elif self._path is not None:
            try:
                self._plain = open(self._path, "wb")  # noqa: SIM115 - closed by `close`
            except OSError as error:
                raise OutputError(f"{self._path} cannot be written: {error.strerror}") from error
        if self._playing:
            self._player = Player(sample_rate, self._device, open_output=self._open_device)

    def _write(self, file: BinaryIO, data: bytes) -> None:
        try:
            file.write(data)
        except OSError as error:
            raise OutputError(f"{self._path} cannot be written: {error.strerror}") from error
