"""Both engine cores in one thread of control, without processes: what the command line speaks with.

    for sound in InProcess.load(folder, config).speak("Hello."):
        file.write(sound.samples)

The cores take turns: a chunk of codes is decoded as soon as it exists, and the talker goes on when its sound was taken.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from ouzel.config import DeployConfig, LimitsConfig, probe_device
from ouzel.engines import code2wav, talker
from ouzel.engines.code2wav import Code2WavCore
from ouzel.engines.talker import TalkerCore
from ouzel.errors import BusyError
from ouzel.orchestrator.request import Command, Deliver, End, Request, Wishes
from ouzel.orchestrator.voice import VoiceFacts
from ouzel.scheduling import ChunkSchedule
from ouzel.stages.core import DecodeRequest, FinishReason, SamplesChunk
from ouzel.stages.messages import Abort, Credit, Speak
from ouzel.stats.phases import Phase
from ouzel.stats.snapshot import Snapshot
from ouzel.stats.steps import NULL, StepStats
from ouzel.stats.timeline import InitTimeline
from ouzel.text.voice_text import TextMode, spoken_sentences

__all__ = ["InProcess", "Sound", "Utterance", "Wishes"]

SLOT = 0
PLAIN = Wishes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """A piece of an utterance; the last one may be empty."""

    samples: NDArray[np.float32]  # [n] mono, in -1..1
    frames: int
    #: place of the sentence that it belongs to; None for a last one without sound
    sentence: int | None
    #: how the whole utterance ended, in its last piece: `length` where any sentence did
    finish: FinishReason | None
    #: ns in each phase
    phases: Mapping[Phase, int]


class Utterance:
    """The sound of one text, sentence after sentence, made while it is iterated over."""

    def __init__(
        self, talker_core: TalkerCore, code2wav_core: Code2WavCore, request: Request, sentences: Sequence[str]
    ) -> None:
        """Begin the first sentence; raises as `InProcess.speak` does."""
        self.open = True
        #: how it ended; None before
        self.finish: FinishReason | None = None
        self._talker = talker_core
        self._code2wav = code2wav_core
        self._request = request
        for sentence in sentences:
            self._obey(request.text(sentence))
        self._obey(request.text_over())
        self._sounds = self._speak()

    def __iter__(self) -> Iterator[Sound]:
        return self

    def __next__(self) -> Sound:
        """:raises EngineError: when a core failed to make it; the utterance is over then"""
        return next(self._sounds)

    def close(self) -> None:
        """Make no more of it. Closing twice, or after the end, is harmless."""
        self._sounds.close()
        self._stop()

    def _speak(self) -> Generator[Sound]:
        try:
            while self.finish is None:
                for chunk in self._chunks():
                    sentence = self._obey(self._request.chunk(chunk))
                    if sentence is None and self.finish is None:
                        continue
                    yield Sound(
                        samples=chunk.samples,
                        frames=chunk.frames,
                        sentence=sentence,
                        finish=self.finish,
                        phases=chunk.phases,
                    )
                    self._obey(self._request.taken(chunk.frames, None))
        finally:
            self._stop()

    def _chunks(self) -> Sequence[SamplesChunk]:
        """The next that the cores make."""
        while not self._code2wav.has_work:
            for codes in self._talker.step():
                self._code2wav.feed(codes.slot, codes)
        return self._code2wav.step()

    def _obey(self, commands: Sequence[Command]) -> int | None:
        """Carry out what the request answered; the place of the sentence that sound came of.

        :raises OuzelError: what ended the request, or keeps a sentence from its start
        """
        sentence = None
        for command in commands:
            match command:
                case Speak(request):
                    self._talker.add(request)
                    self._code2wav.add(DecodeRequest(request.slot, request.epoch))
                case Credit(slot, grant):
                    self._talker.feed(slot, grant)
                case Deliver(_, place):
                    sentence = place
                case Abort():
                    self._stop()
                case End(finish, fault):
                    self.finish = finish
                    if fault is not None:
                        raise fault
        return sentence

    def _stop(self) -> None:
        self.open = False
        for core in (self._talker, self._code2wav):
            core.abort(SLOT)
            while core.has_work:
                core.step()


class InProcess:
    """One loaded voice. One utterance at a time."""

    def __init__(
        self,
        talker_core: TalkerCore,
        code2wav_core: Code2WavCore,
        *,
        limits: LimitsConfig,
        chunk_min_frames: int,
        mode: TextMode,
        sample_rate: int,
    ) -> None:
        self.sample_rate = sample_rate
        self._talker = talker_core
        self._code2wav = code2wav_core
        self._limits = limits
        self._chunk_min_frames = chunk_min_frames
        self._mode: TextMode = mode
        self._epochs = count(1)
        self._utterance: Utterance | None = None

    @classmethod
    def load(
        cls,
        folder: Path,
        config: DeployConfig,
        *,
        threads: int | None = None,
        timeline: InitTimeline | None = None,
        step_stats: bool = False,
    ) -> Self:
        """Load a voice and touch every shape that it will compute, so that the first utterance is as fast as the next.

        :param threads: both cores take turns on these; None for those of the two stages together.
        :raises CheckpointError: when a file of the voice is missing or torn.
        :raises ConfigError: when the settings can't be served.
        """
        timeline = timeline or InitTimeline("in process")
        both = config.talker.threads + config.code2wav.threads
        torch.set_num_threads(threads or min(both, probe_device().cores))
        voice = VoiceFacts.of(folder)
        limits = config.limits
        if voice.letters_per_second is not None:
            limits = replace(limits, letters_per_second=voice.letters_per_second)
        counting = {name: StepStats(name) if step_stats else NULL for name in ("talker", "code2wav")}
        return cls(
            talker.build(folder, config, timeline, counting["talker"]),
            code2wav.build(folder, config, timeline, counting["code2wav"]),
            limits=limits,
            chunk_min_frames=config.talker.chunk_min_frames,
            mode=voice.text_mode,
            sample_rate=voice.sample_rate,
        )

    def speak(self, text: str, wishes: Wishes = PLAIN) -> Utterance:
        """Begin to speak; iterating makes the sound.

        :raises TextTooLongError: when the text has more letters than one request may have.
        :raises RequestError: when nothing in it can be said, or voice, language or sampling don't suit the checkpoint.
        :raises BusyError: when another utterance is still open.
        """
        if self._utterance is not None and self._utterance.open:
            raise BusyError("an utterance is still open: exhaust or close it first")
        if wishes.chunk_frames is not None:
            least, most = self._chunk_min_frames, self._limits.buffer_frames
            ChunkSchedule.from_request(wishes.chunk_frames, "chunk_frames", least=least, most=most)
        sentences = spoken_sentences(text, self._mode, longest=self._limits.max_text_letters, param="text")
        request = Request(SLOT, wishes, self._limits, 1, self._epochs.__next__)
        self._utterance = Utterance(self._talker, self._code2wav, request, sentences)
        return self._utterance

    def snapshots(self) -> list[Snapshot]:
        """Step statistics of both cores; empty where they are off."""
        both = (self._talker.stats, self._code2wav.stats)
        return [stats.snapshot() for stats in both if isinstance(stats, StepStats)]
