"""A speaker without a model: the same text gives the same tone, and a test says when and how it fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from zlib import crc32

import numpy as np

from ouzel.errors import OuzelError
from ouzel.gateway.speaker import End, Health, Sound, State, Utterance
from ouzel.stages.core import FinishReason
from ouzel.stats.phases import Phase

FRAME = 1920
LETTERS_PER_FRAME = 2
CHUNKS = (2, 4, 8, 16, 25)
PHASES = {Phase.BACKBONE: 8_000_000, Phase.PREDICTOR: 6_000_000, Phase.HOP: 500_000, Phase.CODEC: 5_000_000}


def frames_of(text: str) -> int:
    return max(2, len(text) // LETTERS_PER_FRAME)


def tone(text: str, first: int, frames: int, seed: int | None = None) -> np.ndarray:
    """Frames of the text's tone; it fades in and out of every frame."""
    t = np.arange(first * FRAME, (first + frames) * FRAME)
    pitch = 100 + crc32(f"{text}{seed}".encode()) % 400
    return (0.2 * np.sin(2 * np.pi * pitch * t / 24_000) * np.sin(np.pi * t / FRAME)).astype(np.float32)


class FakeSpeaker:
    """Says each text, or each piece of one, as a tone of a frame for two letters."""

    model = "ouzel-fake"
    sample_rate = 24_000

    def __init__(self, *, voices: tuple[str, ...] = ("wren", "robin")) -> None:
        self.voices = voices
        self.reset()

    def reset(self) -> None:
        """As new."""
        self.state = Health(State.READY)
        #: raised at the first pull
        self.refusal: OuzelError | None = None
        #: ends the utterance after its first chunk
        self.fault: OuzelError | None = None
        self.reason = FinishReason.STOP
        #: ends each utterance without any sound
        self.silent = False
        #: chunks wait for it
        self.gate = asyncio.Event()
        self.gate.set()
        #: chunks that pass the gate before it is looked at
        self.free_chunks = 0
        self.asked: list[Utterance] = []
        self.pieces: list[str] = []
        self.health_checks = 0
        self.running = 0
        self.frames_made = 0
        self.starved_ns = 0

    def health(self) -> Health:
        self.health_checks += 1
        return self.state

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    async def speak(self, utterance: Utterance) -> AsyncGenerator[Sound | End, None]:
        self.asked.append(utterance)
        if self.refusal is not None:
            raise self.refusal
        self.running += 1
        try:
            chunks = 0
            async for text in _pieces(utterance.text):
                self.pieces.append(text)
                async for sound in self._sounds(text, utterance, chunks):
                    yield sound
                    chunks += 1
                    if self.fault is not None:
                        yield End(reason=FinishReason.ERROR, fault=self.fault)
                        return
            yield End(reason=self.reason)
        finally:
            self.running -= 1

    async def _sounds(self, text: str, utterance: Utterance, chunks: int) -> AsyncGenerator[Sound, None]:
        total = 0 if self.silent else min(frames_of(text), utterance.max_frames or 10**6)
        sizes = utterance.chunk_frames or CHUNKS
        made = 0
        while made < total:
            if chunks >= self.free_chunks:
                await self.gate.wait()
            frames = min(sizes[min(chunks, len(sizes) - 1)], total - made)
            phases = {phase: ns * frames for phase, ns in PHASES.items()}
            first = {Phase.QUEUE: 1_000_000, Phase.TEXT: 200_000, Phase.PREFILL: 3_000_000} if not made else {}
            samples = tone(text, made, frames, utterance.seed)
            made += frames
            chunks += 1
            self.frames_made += frames
            yield Sound(samples=samples, frames=frames, phases=phases | first, starved_ns=self.starved_ns)

    async def __aenter__(self) -> FakeSpeaker:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.state = replace(self.state, state=State.STOPPED)


async def _pieces(text: str | AsyncIterator[str]) -> AsyncIterator[str]:
    if isinstance(text, str):
        yield text
    else:
        async for piece in text:
            yield piece
