"""An utterance on its way out: sound from the speaker, through its format, in pieces that are ready to send."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeVar

from ouzel.audio.chain import AudioChain
from ouzel.errors import EngineError, NotReadyError, OuzelError
from ouzel.gateway.metrics import Metrics
from ouzel.gateway.speaker import End, Sound, Speaker, Utterance
from ouzel.gateway.timing import Timing
from ouzel.gateway.voices import Voices
from ouzel.gateway.wishes import Wish
from ouzel.stages.core import FinishReason
from ouzel.stats.phases import Phase

__all__ = ["Desk", "Piece", "Speech"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes to send, and where their milliseconds went; the last piece of a format may hold no frames."""

    data: bytes
    timing: Timing


class Desk:
    """Takes wishes to the speaker. Formats are computed in threads: the event loop never computes."""

    def __init__(self, speaker: Speaker, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self.speaker = speaker
        self.metrics = metrics
        self.clock = clock
        self._threads = ThreadPoolExecutor(2, "encode")

    def check_ready(self) -> None:
        """:raises NotReadyError: when no request can be served now."""
        health = self.speaker.health()
        if not health.serving:
            raise NotReadyError(f"{health.state.value}: {health.detail}" if health.detail else health.state.value)

    @property
    def voices(self) -> Voices:
        return Voices(self.speaker.voices)

    def say(self, wish: Wish, text: str | AsyncIterator[str], *, along: bool = False) -> Speech:
        """An utterance; it begins when its first piece is asked for.

        :param along: the pieces are words and not sentences
        """
        utterance = Utterance(
            text=text,
            speaker=wish.speaker,
            language=wish.language,
            instruct=wish.instruct,
            seed=wish.seed,
            max_frames=wish.max_frames,
            chunk_frames=wish.chunk_frames,
            along=along,
        )
        return Speech(self, self.speaker.speak(utterance), wish, text if isinstance(text, str) else "")

    async def compute(self, work: Callable[[], T]) -> T:
        """The result of `work`, done in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class _Listener:
    """Someone who plays from the first piece on, and waits wherever one comes late."""

    heard_until: float | None = None
    gaps_s: list[float] = field(default_factory=list)

    def hear(self, audio_s: float, now: float) -> float:
        """The silence before this piece."""
        gap = 0.0 if self.heard_until is None else max(0.0, now - self.heard_until)
        if gap:
            self.gaps_s.append(gap)
        self.heard_until = audio_s + (now if self.heard_until is None else max(now, self.heard_until))
        return gap


class Speech:
    """One utterance."""

    def __init__(self, desk: Desk, sounds: AsyncGenerator[Sound | End, None], wish: Wish, text: str) -> None:
        self.wish = wish
        self._text = text
        #: codec frames made so far
        self.frames = 0
        #: length of the audio so far, as the client hears it
        self.audio_ms = 0.0
        #: None until the speaker has said how it ended
        self.end: End | None = None
        self._desk = desk
        self._sounds = sounds
        self._listener = _Listener()

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """The pieces as they are made. Closing it aborts the utterance.

        :raises OuzelError: what the speaker raised, or the fault that ended the utterance
        """
        metrics, clock = self._desk.metrics, self._desk.clock
        began = clock()
        first: float | None = None
        outcome = "cancelled"
        metrics.waiting += 1
        try:
            async with aclosing(self._sounds):
                async for piece in self._encoded():
                    if first is None and piece.data:
                        first = clock()
                        metrics.waiting -= 1
                        metrics.running += 1
                        metrics.first_audio(first - began)
                    metrics.piece(piece.timing)
                    yield piece
            self._check_end()
            outcome = "ok"
            if first is not None:
                metrics.sounded(clock() - first, self.audio_ms / 1000, self._listener.gaps_s)
        except OuzelError as error:
            outcome = "rejected" if error.status < 500 or isinstance(error, NotReadyError) else "error"
            raise
        finally:
            if first is None:
                metrics.waiting -= 1
            else:
                metrics.running -= 1
            metrics.ended(outcome)

    async def count_tokens(self) -> int:
        """Tokens of its text, where that was given whole."""
        return await self._desk.compute(lambda: self._desk.speaker.count_tokens(self._text))

    async def _encoded(self) -> AsyncGenerator[Piece, None]:
        shape, rate = self.wish.shape, self._desk.speaker.sample_rate
        chain = await self._desk.compute(lambda: AudioChain(shape, rate))
        async for sound in self._sounds:
            if isinstance(sound, End):
                self.end = sound
                break
            yield await self._piece(chain, sound)
        if self.end is not None and self.end.reason in (FinishReason.STOP, FinishReason.LENGTH):
            yield await self._piece(chain, None)

    async def _piece(self, chain: AudioChain, sound: Sound | None) -> Piece:
        """A sound as bytes; None for the end of the format."""
        began = time.perf_counter_ns()
        data = await self._desk.compute(chain.finish if sound is None else lambda: chain.encode(sound.samples))
        phases = dict(sound.phases) if sound else {}
        phases[Phase.ENCODE] = phases.get(Phase.ENCODE, 0) + time.perf_counter_ns() - began
        added_ms = chain.audio_ms - self.audio_ms
        gap_s = self._listener.hear(added_ms / 1000, self._desk.clock()) if added_ms else 0.0
        self._desk.metrics.gap(gap_s, sound.starved_ns / 1e9 if sound else 0.0)
        timing = Timing(
            frame=self.frames,
            frames=sound.frames if sound else 0,
            audio_ms=added_ms,
            phases=phases,
            starved_ns=sound.starved_ns if sound else 0,
            gap_ms=gap_s * 1000,
        )
        self.frames += timing.frames
        self.audio_ms = chain.audio_ms
        return Piece(data, timing)

    def _check_end(self) -> None:
        end = self.end
        if end is None or end.reason is FinishReason.CANCELLED:
            raise EngineError("the utterance was stopped by the server")
        if end.reason is FinishReason.ERROR:
            raise end.fault or EngineError("the utterance ended with a fault that its stage didn't name")
