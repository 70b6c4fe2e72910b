"""AsyncOmni: a voice, served by its stages, and beside it a language model where the settings name one.

async with AsyncOmni(deploy_profile="edge") as omni:
    async for chunk in omni.speak("The river keeps its own time."):
        play(chunk.samples)
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Literal, Self
from weakref import WeakValueDictionary

from ouzel.config import DeployConfig, load_config, probe_device
from ouzel.errors import ConfigError, NotFoundError, NotReadyError, RequestError
from ouzel.orchestrator.desk import Desk
from ouzel.orchestrator.health import Health
from ouzel.orchestrator.language import Generation, Language
from ouzel.orchestrator.pace import PROBE_FRAMES, PROBE_TEXT, Fitting
from ouzel.orchestrator.readers import Readers
from ouzel.orchestrator.request import Wishes
from ouzel.orchestrator.serving import language_of
from ouzel.orchestrator.slots import Slots
from ouzel.orchestrator.speech import Speech
from ouzel.orchestrator.stream import Stream
from ouzel.orchestrator.voice import VoiceFacts
from ouzel.scheduling import FRAMES_PER_SECOND, ChunkSchedule, kv_budget
from ouzel.stages.core import SamplingWishes
from ouzel.stages.language import LanguageRequest
from ouzel.stages.launch import Launch, launch_process, launch_thread
from ouzel.stages.loop import BEAT_S
from ouzel.stages.messages import Setup
from ouzel.stages.supervisor import StageState, Supervisor, SupervisorLimits
from ouzel.stages.topology import StageSpec, flatten, topology
from ouzel.stats.dump import FOLDER_VARIABLE, dump
from ouzel.stats.snapshot import Snapshot
from ouzel.stats.steps import NULL, Stats, StepStats
from ouzel.stats.timeline import InitTimeline, Span
from ouzel.text.voice_text import spoken_sentences

__all__ = ["AsyncOmni", "Wishes"]

log = logging.getLogger(__name__)

#: How often deadlines are looked at.
_TICK_S = 0.25
#: A stage that misses so many is stuck, however short the requests' own deadline.
_MISSED_BEATS = 5


class AsyncOmni:
    """Loads a voice when entered, and leaves no process when left."""

    def __init__(
        self,
        *,
        voice: str | Path | VoiceFacts = "joe",
        deploy_profile: str | None = None,
        deploy_config: str | Path | None = None,
        settings: Mapping[str, object] | None = None,
        config: DeployConfig | None = None,
        step_stats: bool = False,
        launch: Launch | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """
        :param voice: a carried voice by its name, or a checkpoint folder
        :param deploy_profile: a profile's name; excludes `deploy_config`, a file
        :param settings: by dotted name, over both
        :param config: settings that were loaded already, in place of these three
        :param step_stats: count where the milliseconds go (`stats`)
        :raises ConfigError: when the settings are wrong
        :raises NotFoundError, CheckpointError: when there is no such voice, or its config is torn
        """
        if config is not None and (deploy_profile or deploy_config or settings):
            raise ConfigError("config excludes deploy_profile, deploy_config and settings", param="config")
        self.voice = voice if isinstance(voice, VoiceFacts) else VoiceFacts.of(voice)
        if config is None:
            config = load_config(
                ("qwen3_tts",),
                deploy_profile=deploy_profile,
                deploy_config=deploy_config,
                flags=settings,
                derive=self.voice.derive,
            ).config
        self.config = config
        self._specs = topology(config, probe_device().cores, os.sched_getaffinity(0))
        self._limits = config.limits
        if self.voice.letters_per_second is not None:
            self._limits = replace(config.limits, letters_per_second=self.voice.letters_per_second)
        self._stats_on = step_stats or bool(os.environ.get(FOLDER_VARIABLE))
        self._stats: Stats = StepStats("orchestrator") if self._stats_on else NULL
        talker = config.talker
        budget = kv_budget(self.voice.kv_geometry(talker.dtype), talker.max_num_seqs, talker.kv_cache_bytes)
        self._slots = Slots(budget.sequences, config.limits.max_waiting)
        names = [str(spec.role) for spec in self._specs]
        wanted = ChunkSchedule(config.talker.chunk_frames).with_minimum(config.talker.chunk_min_frames)
        self._fitting = Fitting(wanted, colocated=self.colocated)
        self._desk = Desk(names, self._limits, self._slots, self._stats, self._fitting, clock)
        self._stages = Supervisor(
            self._specs,
            self._setup,
            self._desk,
            self._supervisor_limits(),
            launch or (launch_thread if config.orchestrator.in_process else launch_process),
            clock=clock,
            sleep=sleep,
        )
        self._desk.stages = self._stages
        #: None where the settings name none
        self.language: Language | None = language_of(
            config, step_stats=self._stats_on, launch=launch or launch_process, clock=clock, sleep=sleep
        )
        self._timeline = InitTimeline("orchestrator")
        self._numbers = count(1)
        self._named: WeakValueDictionary[str, Stream] = WeakValueDictionary()
        self._readers = Readers(self.voice.text_mode, self._limits.max_text_letters)
        self._watch: asyncio.Task[None] | None = None
        self._state: Literal["stopped", "loading", "serving"] = "stopped"

    @property
    def sample_rate(self) -> int:
        return self.voice.sample_rate

    @property
    def colocated(self) -> bool:
        """Whether talker and code2wav take turns."""
        return len(self._specs) == 1

    def speak(
        self,
        text: str | AsyncIterable[str],
        *,
        speaker: str | None = None,
        language: str | None = None,
        instruct: str | None = None,
        seed: int | None = None,
        sampling: SamplingWishes | None = None,
        streaming_layout: bool = False,
        chunk_frames: Sequence[int] | None = None,
        max_frames: int | None = None,
        whole_pieces: bool = False,
        request_id: str | None = None,
    ) -> Speech:
        """Begin to speak a text, in sentences; iterating gives its sound as it is made.

        :param text: whole, or in pieces as they come
        :param seed: the same seed and text give the same speech; excludes one in `sampling`
        :param streaming_layout: the text lies beside the frames; one that comes in pieces is then spoken word by word,
            by a voice that reads it as it is written
        :param max_frames: of the whole text; each sentence also keeps the limit that follows from its length
        :param whole_pieces: each piece of the text is a sentence or more, and safe to speak whatever follows
        :raises BusyError: when the queue is at its bound
        :raises NotReadyError: while a stage isn't serving
        :raises TextTooLongError: when the text has more letters than one request may have
        :raises RequestError: when nothing in it can be said, or a wish is wrong; what only the voice's model knows
            (speaker, language, sampling) is raised by the iteration
        """
        if self._state != "serving":
            raise NotReadyError(f"the server is {self._state}")
        self._stages.check_ready()
        wishes = Wishes(
            speaker=speaker,
            language=language,
            instruct=instruct,
            sampling=_with_seed(sampling, seed),
            streaming_layout=streaming_layout,
            chunk_frames=self._chunk_frames(chunk_frames),
            max_frames=max_frames,
        )
        return self._open(text, wishes, request_id, whole_pieces=whole_pieces)

    def generate(self, request: LanguageRequest, request_id: str | None = None) -> Generation:
        """Begin to answer in text; iterating gives it as it is written. The request's slot and epoch are ours to give.

        :raises NotFoundError: when no language model is served here
        :raises NotReadyError: while it loads, is started again, or has failed
        :raises BusyError: when its queue is at its bound
        :raises RequestError: when the request asks for no choice or is too long to be handed on; what only the model
            knows (its template, its context) is raised by the iteration
        """
        if self.language is None:
            raise NotFoundError("no language model is served here", param="model")
        return self.language.generate(request, request_id or f"r{next(self._numbers)}")

    def abort(self, request_id: str) -> bool:
        """End what is spoken and what is written under this name; False when nothing is open, or all was taken."""
        written = self.language is not None and self.language.abort(request_id)
        stream = self._named.get(request_id)
        if stream is None or stream.ended is not None:
            return written
        stream.abort()
        return True

    def health(self) -> Health:
        """Its condition, without waiting."""
        status = self._stages.status()
        serving = all(one.state is StageState.READY for one in status.values())
        return Health(
            state=self._state if self._state != "serving" else "ready" if serving else "degraded",
            stages=status,
            open_requests=self._slots.taken,
            most_requests=self._slots.bound,
            placement="colocate" if self.colocated else "side_by_side",
            pace=self._fitting.pace,
            plan=self._fitting.plan,
            language=None if self.language is None else self.language.status(),
        )

    async def stats(self) -> list[Snapshot]:
        """Step statistics of every process that answers, now; empty where they are off."""
        if not isinstance(self._stats, StepStats):
            return []
        written = [] if self.language is None else await self.language.snapshots()
        return [*await self._desk.snapshots(), self._stats.snapshot(), *written]

    def timeline(self) -> tuple[Span, ...]:
        """What the start took, process by process."""
        written = () if self.language is None else self.language.spans
        return (*self._timeline.spans, *self._stages.spans, *written)

    async def __aenter__(self) -> Self:
        """Start the stages, and speak a few words to nobody, to see how fast that is.

        The language model goes on loading meanwhile and afterwards.

        :raises OuzelError: what keeps a stage of the voice from its start.
        """
        self._state = "loading"
        parallel = self.config.orchestrator.parallel_stage_init
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._close)
            if self.language is not None and parallel:
                await self.language.start()
            with self._timeline.phase("start stages"):
                await self._stages.start()
            self._watch = asyncio.create_task(self._tick(), name="deadlines")
            with self._timeline.phase("measure"):
                await self._measure()
            if self.language is not None and not parallel:
                await self.language.start()
            undo.pop_all()
        self._state = "serving"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _close(self) -> None:
        self._state = "stopped"
        self._desk.close()
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await self._readers.close()
        stopping = [self._stages.stop()] if self.language is None else [self._stages.stop(), self.language.stop()]
        await asyncio.gather(*stopping)
        self._desk.close()
        folder = os.environ.get(FOLDER_VARIABLE)
        if folder and isinstance(self._stats, StepStats):
            dump(self._stats.snapshot(), folder)

    async def _measure(self) -> None:
        try:
            speaker = self.voice.default_speaker or next(iter(self.voice.speakers), None)
            speech = self._open(PROBE_TEXT, Wishes(max_frames=PROBE_FRAMES, speaker=speaker), "probe")
            async for _ in speech:
                continue
        except RequestError as error:
            log.warning("the pace isn't measured: this voice speaks no plain text: %s", error)
            return
        self._fitting.refit()
        self._desk.forget_stats()

    def _open(
        self, text: str | AsyncIterable[str], wishes: Wishes, request_id: str | None, *, whole_pieces: bool = False
    ) -> Speech:
        sentences: list[str] | None = None
        if isinstance(text, str):
            longest = self._limits.max_text_letters
            sentences = spoken_sentences(text, self.voice.text_mode, longest=longest, param="text")
        largest = max(wishes.chunk_frames or self._fitting.wanted.sizes)
        stream = self._desk.open(wishes, request_id or f"r{next(self._numbers)}", self.sample_rate, largest)
        self._named[stream.id] = stream
        stream.start_delay_s = self._fitting.start_delay_s(None if sentences is None else self._frames_of(sentences))
        if sentences is None:
            assert not isinstance(text, str)
            self._readers.read(stream, text, whole=whole_pieces, streaming=wishes.streaming_layout)
        else:
            for sentence in sentences:
                stream.act(stream.request.text(sentence))
            stream.act(stream.request.text_over())
        return Speech(stream, asyncio.get_running_loop())

    def _frames_of(self, sentences: Sequence[str]) -> int:
        return math.ceil(sum(map(len, sentences)) / self._limits.letters_per_second * FRAMES_PER_SECOND)

    def _chunk_frames(self, asked: Sequence[int] | None) -> tuple[int, ...] | None:
        """A request's own schedule, or the one that suits the device; None for the profile's.

        :raises RequestError: when it is no schedule, or has chunks smaller or larger than they may be here.
        """
        if asked is None:
            plan = self._fitting.plan
            return plan.schedule.sizes if plan is not None and plan.schedule != self._fitting.wanted else None
        least, most = self.config.talker.chunk_min_frames, self._limits.buffer_frames
        return ChunkSchedule.from_request(asked, "chunk_frames", least=least, most=most).sizes

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._desk.check_deadlines()
            self._fitting.refit()

    def _setup(self, spec: StageSpec) -> Setup:
        return Setup(
            role=spec.role,
            folder=str(self.voice.folder),
            settings=flatten(self.config),
            threads=spec.threads,
            nice=spec.nice,
            cpus=spec.cpus,
            step_stats=self._stats_on,
            launched_ns=time.monotonic_ns(),
        )

    def _supervisor_limits(self) -> SupervisorLimits:
        orchestrator = self.config.orchestrator
        return SupervisorLimits(
            init_deadline_s=orchestrator.init_deadline_s,
            silence_s=max(self._limits.progress_deadline_s, _MISSED_BEATS * BEAT_S),
            stop_grace_s=orchestrator.stop_grace_s,
            backoff_s=orchestrator.restart_backoff_s,
            backoff_max_s=orchestrator.restart_backoff_max_s,
            parallel=orchestrator.parallel_stage_init,
        )


def _with_seed(sampling: SamplingWishes | None, seed: int | None) -> SamplingWishes:
    sampling = sampling or SamplingWishes()
    if seed is None:
        return sampling
    if sampling.seed is not None:
        raise RequestError(f"seed {seed} and sampling.seed {sampling.seed}: give one of them", param="seed")
    return replace(sampling, seed=seed)
