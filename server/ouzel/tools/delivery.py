"""Sound to where it is wanted, as it is made: a file that grows, a loudspeaker, or both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ouzel.audio.wav import WavWriter
from ouzel.errors import OutputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ouzel.in_process import Utterance
    from ouzel.orchestrator import SyncSpeech

__all__ = ["Delivery", "Sink", "open_sinks"]

#: Takes the next samples [n] float32.
Sink = Callable[["NDArray[np.float32]"], None]


class Delivery:
    """Hands each piece of sound on as soon as it is made, and follows how fast that goes."""

    def __init__(self) -> None:
        self.finish: str | None = None
        self.interrupted = False
        self._begun = time.perf_counter()
        self._first_s = self._busy_s = 0.0
        self._samples = 0

    def run(self, sounds: SyncSpeech | Utterance, sinks: Sequence[Sink]) -> None:
        asked = self._begun
        try:
            for sound in sounds:
                made = time.perf_counter()
                self._busy_s += made - asked
                if not self._samples:
                    self._first_s = made - self._begun
                for sink in sinks:
                    sink(sound.samples)
                self._samples += len(sound.samples)
                asked = time.perf_counter()
            self.finish = sounds.finish
        except KeyboardInterrupt:
            self.interrupted = True

    def summary(self, sample_rate: int) -> str:
        seconds = self._samples / sample_rate
        factor = f"{self._busy_s / seconds:.3f}" if seconds else "-"
        how = "interrupted" if self.interrupted else self.finish
        first = f"{1000 * self._first_s:.0f} ms"
        return f"first audio {first}, real-time factor {factor}, {seconds:.2f} s of speech, {how}"


def open_sinks(output: Path | None, play: bool, sample_rate: int) -> Iterator[AbstractContextManager[Sink]]:
    """Where sound is wanted, each to be entered."""
    if output is not None:
        yield _wav_file(output, sample_rate)
    if play:
        yield _loudspeaker(sample_rate)


@contextmanager
def _wav_file(path: Path, sample_rate: int) -> Iterator[Sink]:
    with WavWriter(path, sample_rate) as writer:
        yield writer.write


@contextmanager
def _loudspeaker(sample_rate: int) -> Iterator[Sink]:
    try:
        import sounddevice
    except ImportError as error:
        raise OutputError("--play needs sounddevice: pip install 'ouzel[client]'", param="play") from error
    except OSError as error:
        raise OutputError(f"--play needs the PortAudio library: {error}", param="play") from error
    try:
        with sounddevice.OutputStream(sample_rate, channels=1, dtype="float32") as stream:
            yield lambda samples: stream.write(samples[:, None])
    except sounddevice.PortAudioError as error:
        raise OutputError(f"no sound device can be played on: {error}", param="play") from error
