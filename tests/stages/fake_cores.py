"""Engine cores without a model, for processes that start in a moment. A request's `instruct` says what goes wrong.

The talker makes one frame for each letter, whose codes are the frame's number; code2wav makes sound of these numbers;
the language core gives a prompt back word by word.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ouzel.config.schema import DeployConfig
from ouzel.errors import CheckpointError, EngineError, OuzelError, RequestError
from ouzel.scheduling import ChunkSchedule, Credits
from ouzel.stages.core import (
    CodesChunk,
    DecodeRequest,
    FinishReason,
    Grant,
    SamplesChunk,
    TalkerItem,
    TalkerRequest,
)
from ouzel.stages.language import LanguageFacts, LanguageRequest, TextDelta, Usage
from ouzel.stats.phases import Phase
from ouzel.stats.steps import NULL, Stats
from ouzel.stats.timeline import InitTimeline

SAMPLES = 1920
AT_ONCE = 4


@dataclass(eq=False)
class Voice:
    """One utterance of the fake talker."""

    request: TalkerRequest
    schedule: ChunkSchedule
    credits: Credits
    knobs: dict[str, float]
    text: str
    growing: bool
    unsent: list[int] = field(default_factory=list)
    sent: int = 0
    sequence: int = 0

    @property
    def frames(self) -> int:
        return min(len(self.text), self.request.max_frames)

    @property
    def over(self) -> bool:
        return not self.growing and self.credits.made >= self.frames

    @property
    def may_speak(self) -> bool:
        return self.over or (self.credits.available > 0 and self.credits.made < self.frames)


class FakeTalker:
    """`instruct`: pace=S seconds a frame; refuse; fault=N, die=N, hang=N at frame N."""

    def __init__(self, config: DeployConfig, stats: Stats) -> None:
        self.stats = stats
        self._schedule = ChunkSchedule(config.talker.chunk_frames)
        self._voices: dict[int, Voice] = {}
        self._endings: list[CodesChunk] = []

    @property
    def has_work(self) -> bool:
        return bool(self._endings or self._speaking())

    def add(self, request: TalkerRequest) -> None:
        knobs = dict(_knob(word) for word in (request.instruct or "").split())
        if "refuse" in knobs:
            raise RequestError("the fake talker refuses", param="instruct")
        if request.slot in self._voices:
            raise EngineError(f"slot {request.slot} is taken")
        schedule = ChunkSchedule(request.chunk_frames) if request.chunk_frames else self._schedule
        text, credits = request.text, Credits(request.granted_frames)
        self._voices[request.slot] = Voice(request, schedule, credits, knobs, text or "", growing=text is None)

    def feed(self, slot: int, item: TalkerItem) -> None:
        voice = self._voices.get(slot)
        if voice is None or voice.request.epoch != item.epoch:
            return
        if isinstance(item, Grant):
            voice.credits.grant(item.frames)
        else:
            voice.text, voice.growing = voice.text + item.text, not item.last

    def abort(self, slot: int) -> None:
        voice = self._voices.pop(slot, None)
        if voice is not None:
            voice.unsent.clear()
            self._endings.append(_chunk(voice, FinishReason.CANCELLED))

    def step(self) -> list[CodesChunk]:
        with self.stats.step():
            out, self._endings = self._endings, []
            for voice in self._speaking():
                out += self._speak(voice)
            return out

    def close(self) -> None:
        self._voices.clear()

    def _speaking(self) -> list[Voice]:
        return [voice for voice in list(self._voices.values())[:AT_ONCE] if voice.may_speak]

    def _speak(self, voice: Voice) -> list[CodesChunk]:
        frame, knobs = voice.credits.made, voice.knobs
        with self.stats.phase(Phase.BACKBONE):
            time.sleep(knobs.get("pace", 0.0))
        if knobs.get("die") == frame:
            os.kill(os.getpid(), signal.SIGKILL)
        if knobs.get("hang") == frame:
            os.kill(os.getpid(), signal.SIGSTOP)
        if knobs.get("fault") == frame:
            return [self._end(voice, FinishReason.ERROR, EngineError("the fake talker fails"))]
        if not voice.over:
            voice.unsent.append(frame)
            voice.credits.made += 1
            self.stats.made(1)
        if voice.over:
            cut = len(voice.text) > voice.request.max_frames
            return [self._end(voice, FinishReason.LENGTH if cut else FinishReason.STOP)]
        due = voice.schedule.due(voice.sent, voice.credits.made)
        return [_chunk(voice)] if due else []

    def _end(self, voice: Voice, finish: FinishReason, fault: OuzelError | None = None) -> CodesChunk:
        del self._voices[voice.request.slot]
        return _chunk(voice, finish, fault)


def _chunk(voice: Voice, finish: FinishReason | None = None, fault: OuzelError | None = None) -> CodesChunk:
    frames, voice.unsent = voice.unsent, []
    voice.sent += len(frames)
    voice.sequence += 1
    return CodesChunk(
        slot=voice.request.slot,
        epoch=voice.request.epoch,
        sequence=voice.sequence - 1,
        codes=np.array(frames, np.uint16).reshape(-1, 1).repeat(4, axis=1),
        finish=finish,
        fault=fault,
        phases={Phase.BACKBONE: 1_000_000 * len(frames)},
        put_ns=time.monotonic_ns(),
    )


class FakeCode2Wav:
    """Sound of 1,920 samples a frame, each the frame's number / 65,536."""

    def __init__(self, stats: Stats) -> None:
        self.stats = stats
        self._epochs: dict[int, int] = {}
        self._queue: deque[CodesChunk] = deque()
        self._sent: dict[int, int] = {}

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    def add(self, request: DecodeRequest) -> None:
        if request.slot in self._epochs:
            raise EngineError(f"slot {request.slot} is taken")
        self._epochs[request.slot] = request.epoch

    def feed(self, slot: int, item: CodesChunk) -> None:
        if self._epochs.get(slot) == item.epoch:
            self.stats.record(Phase.HOP, time.monotonic_ns() - item.put_ns)
            self._queue.append(item)

    def abort(self, slot: int) -> None:
        self._epochs.pop(slot, None)
        self._queue = deque(chunk for chunk in self._queue if chunk.slot != slot)

    def step(self) -> list[SamplesChunk]:
        with self.stats.step():
            chunk = self._queue.popleft()
            if chunk.last:
                del self._epochs[chunk.slot]
            self.stats.made(chunk.frames)
            return [
                SamplesChunk(
                    slot=chunk.slot,
                    epoch=chunk.epoch,
                    sequence=chunk.sequence,
                    samples=(chunk.codes[:, 0] / np.float32(65536)).astype(np.float32).repeat(SAMPLES),
                    frames=chunk.frames,
                    finish=chunk.finish,
                    fault=chunk.fault,
                    phases={**chunk.phases, Phase.CODEC: 100_000 * chunk.frames},
                    put_ns=time.monotonic_ns(),
                )
            ]

    def close(self) -> None:
        self._queue.clear()


@dataclass(eq=False)
class Writing:
    """One request of the fake language core."""

    request: LanguageRequest
    words: list[str]
    written: int = 0


class FakeLanguage:
    """`template`: pace, seconds a word; refuse; fault, die or hang, after so many words."""

    facts = LanguageFacts(model="fake", context=100, kv_tokens=400)

    def __init__(self, stats: Stats) -> None:
        self.stats = stats
        self._writing: dict[int, Writing] = {}
        self._endings: list[TextDelta] = []

    @property
    def counters(self) -> dict[str, int]:
        running = len(self._writing)
        return {"preemptions": 0, "kv_tokens": 400, "kv_reserved_tokens": 100 * running, "running": running}

    @property
    def has_work(self) -> bool:
        return bool(self._endings or self._writing)

    def add(self, request: LanguageRequest) -> None:
        if "refuse" in request.template:
            raise RequestError("the fake language core refuses", param="messages")
        self._writing[request.slot] = Writing(request, re.findall(r"\S+\s*", request.prompt or ""))

    def feed(self, slot: int, item: object) -> None:
        raise EngineError("nothing is fed to a language core")

    def abort(self, slot: int) -> None:
        if slot in self._writing:
            self._endings.append(self._end(self._writing[slot], FinishReason.CANCELLED))

    def step(self) -> list[TextDelta]:
        with self.stats.step():
            out, self._endings = self._endings, []
            return out + [self._write(one) for one in list(self._writing.values())]

    def close(self) -> None:
        self._writing.clear()

    def _write(self, one: Writing) -> TextDelta:
        knobs = one.request.template
        time.sleep(knobs.get("pace", 0.0))
        if knobs.get("die") == one.written:
            os.kill(os.getpid(), signal.SIGKILL)
        if knobs.get("hang") == one.written:
            os.kill(os.getpid(), signal.SIGSTOP)
        if knobs.get("fault") == one.written:
            return self._end(one, FinishReason.ERROR, EngineError("the fake language core fails"))
        if one.written == len(one.words):
            return self._end(one, FinishReason.STOP)
        one.written += 1
        return self._delta(one, content=one.words[one.written - 1])

    def _end(self, one: Writing, finish: FinishReason, fault: OuzelError | None = None) -> TextDelta:
        del self._writing[one.request.slot]
        usage = Usage(prompt_tokens=len(one.words), completion_tokens=one.written)
        return self._delta(one, finish=finish, fault=fault, usage=usage)

    def _delta(self, one: Writing, **more: Any) -> TextDelta:
        sequence = one.written - 1 if "content" in more else one.written
        return TextDelta(
            slot=one.request.slot, epoch=one.request.epoch, sequence=sequence, put_ns=time.monotonic_ns(), **more
        )


def _knob(word: str) -> tuple[str, float]:
    name, _, value = word.partition("=")
    return name, float(value or 0)


def talker(folder: Path, config: DeployConfig, timeline: InitTimeline, stats: Stats = NULL) -> FakeTalker:
    with timeline.phase("load fake talker"):
        if (folder / "torn").exists():
            raise CheckpointError("model.safetensors is torn")
        if (folder / "stuck").exists():
            signal.pause()
    return FakeTalker(config, stats)


def code2wav(folder: Path, config: DeployConfig, timeline: InitTimeline, stats: Stats = NULL) -> FakeCode2Wav:
    with timeline.phase("load fake codec"):
        return FakeCode2Wav(stats)


def llm(folder: Path, config: DeployConfig, timeline: InitTimeline, stats: Stats = NULL) -> FakeLanguage:
    with timeline.phase("load fake language model"):
        if (folder / "torn").exists():
            raise CheckpointError("config.json is torn")
        if (folder / "odd").exists():
            raise KeyError("odd")
        if (folder / "stuck").exists():
            signal.pause()
    return FakeLanguage(stats)
