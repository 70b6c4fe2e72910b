"""A language model in a stage of its own, beside the stages that speak."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from ouzel.config import DeployConfig, probe_device
from ouzel.errors import ConfigError, EngineError, NotReadyError, OuzelError, RequestError
from ouzel.orchestrator.generation import Generation
from ouzel.orchestrator.language import LanguageState, LanguageStatus
from ouzel.orchestrator.language_desk import LanguageDesk
from ouzel.orchestrator.slots import Slots
from ouzel.stages.language import LanguageRequest
from ouzel.stages.launch import Launch, launch_process
from ouzel.stages.loop import BEAT_S
from ouzel.stages.messages import (
    Abort,
    AskStats,
    Beat,
    FromStage,
    Generate,
    Generated,
    Refused,
    Setup,
    StageRole,
    StatsReply,
)
from ouzel.stages.supervisor import StageState, StageStatus, Supervisor, SupervisorLimits
from ouzel.stages.topology import StageSpec, flatten, language_stage
from ouzel.stats.dump import FOLDER_VARIABLE, dump
from ouzel.stats.phases import Phase
from ouzel.stats.snapshot import Snapshot
from ouzel.stats.steps import NULL, Stats, StepStats
from ouzel.stats.timeline import Span
from ouzel.transfer import RingReader

__all__ = ["LocalLanguage"]

log = logging.getLogger(__name__)

_NAME = str(StageRole.LLM)
#: A stage answers between two steps; one that is down doesn't.
_STATS_WITHIN_S = 1.0
#: A stage that misses so many is stuck, however short the requests' own deadline.
_MISSED_BEATS = 5


class LocalLanguage:
    """Owns the stage and every request in it."""

    def __init__(
        self,
        config: DeployConfig,
        *,
        step_stats: bool = False,
        launch: Launch = launch_process,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """
        :param config: with `llm.model`, a checkpoint's folder
        :raises ConfigError: when it names no model, or cores or threads that aren't there
        """
        if config.llm.model is None:
            raise ConfigError("llm.model is null; give a checkpoint's folder", param="llm.model")
        self._config = config
        self._folder = Path(config.llm.model)
        self._stats: Stats = StepStats("language") if step_stats else NULL
        slots = Slots(config.llm.max_num_seqs, config.llm.max_waiting)
        self._desk = LanguageDesk(slots, config.limits.progress_deadline_s, self._send, clock)
        self._stages = Supervisor(
            [language_stage(config, probe_device().cores, os.sched_getaffinity(0))],
            self._setup,
            self,
            _supervisor_limits(config),
            launch,
            clock=clock,
            sleep=sleep,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._running = False
        self._fault: OuzelError | None = None  # of the first start
        self._death: OuzelError | None = None  # of an incarnation that had served
        self._steps = 0
        self._counters: Mapping[str, int] = {}
        self._asked: asyncio.Future[StatsReply] | None = None

    @property
    def spans(self) -> tuple[Span, ...]:
        """The init timeline of its stage."""
        return self._stages.spans

    async def start(self) -> None:
        """Begin to load; `status` says when it serves, and why it doesn't."""
        self._running = True
        self._fault = self._death = None
        self._tasks = [
            asyncio.create_task(self._load(), name="load language"),
            asyncio.create_task(self._desk.watch(), name="language deadlines"),
        ]

    async def stop(self) -> None:
        """End what is open, and the stage."""
        self._running = False
        self._desk.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._stages.stop()
        folder = os.environ.get(FOLDER_VARIABLE)
        if folder and isinstance(self._stats, StepStats):
            dump(self._stats.snapshot(), folder)

    def generate(self, request: LanguageRequest, request_id: str) -> Generation:
        """As `Language.generate` says."""
        status = self._stages.status()[_NAME]
        if (state := self._state(status)) is not LanguageState.READY:
            raise NotReadyError(f"the language model is {state} ({self._reason(status)})")
        return self._desk.open(request, request_id)

    def abort(self, request_id: str) -> bool:
        """As `Language.abort` says."""
        return self._desk.abort(request_id)

    def status(self) -> LanguageStatus:
        """Its condition, without waiting."""
        status, facts = self._stages.status()[_NAME], self._stages.facts
        return LanguageStatus(
            state=self._state(status),
            model=self._folder.name if facts is None else facts.model,
            reason=self._reason(status),
            facts=facts,
            counters=self._counters,
            restarts=status.restarts,
            pid=status.pid,
            open_requests=self._desk.taken,
            most_requests=self._desk.bound,
        )

    async def snapshots(self) -> list[Snapshot]:
        """Step statistics of the stage, where it answers, and of the way to it; empty where they are off."""
        if not isinstance(self._stats, StepStats):
            return []
        self._asked = self._asked or asyncio.get_running_loop().create_future()
        self._stages.send(_NAME, AskStats())
        done, _ = await asyncio.wait([self._asked], timeout=_STATS_WITHIN_S)
        self._asked = None
        replies = [Snapshot.from_json(one) for future in done for one in future.result().snapshots]
        return [*replies, self._stats.snapshot()]

    def heard(self, name: str, message: FromStage) -> None:
        """The stage said something."""
        match message:
            case Generated(delta):
                self._stats.record(Phase.HOP, time.monotonic_ns() - delta.put_ns)
                with self._stats.phase(Phase.DISPATCH):
                    self._desk.heard(delta)
                self._desk.progressed()
            case Refused(slot, epoch, fault):
                self._desk.refused(slot, epoch, fault.error())
            case Beat(steps, counters):
                # A long prompt takes many steps that show nothing.
                if steps != self._steps:
                    self._desk.progressed()
                self._steps, self._counters = steps, counters
            case StatsReply():
                if self._asked is not None and not self._asked.done():
                    self._asked.set_result(message)

    def went_down(self, name: str, error: OuzelError) -> None:
        """The stage is gone, and every open request with it."""
        self._death = error
        self._counters = {}
        self._desk.went_down(error)

    def output(self, reader: RingReader) -> None:
        """Text comes over the control channel.

        :raises EngineError: since no ring belongs to a language stage.
        """
        reader.close()
        raise EngineError("a ring was made for the language stage, which has none")

    async def _load(self) -> None:
        try:
            await self._stages.start()
        except OuzelError as error:
            log.error("the language model isn't served: %s", error)
            self._fault = error

    def _send(self, command: Generate | Abort) -> None:
        try:
            self._stages.send(_NAME, command)
        except EngineError as error:
            if not isinstance(command, Generate):
                raise
            # The one thing that a channel refuses is a message that is too long.
            fault = RequestError(f"the request can't be handed on: {error}")
            self._desk.refused(command.request.slot, command.request.epoch, fault)

    def _state(self, stage: StageStatus) -> LanguageState:
        if not self._running:
            return LanguageState.STOPPED
        if self._fault is not None:
            return LanguageState.FAILED
        if stage.state is StageState.READY:
            return LanguageState.READY
        return LanguageState.LOADING if self._death is None else LanguageState.RESTARTING

    def _reason(self, stage: StageStatus) -> str:
        match self._state(stage):
            case LanguageState.FAILED:
                return str(self._fault)
            case LanguageState.LOADING:
                return stage.phase
            case LanguageState.RESTARTING:
                return stage.fault or str(self._death)
        return ""

    def _setup(self, spec: StageSpec) -> Setup:
        return Setup(
            role=spec.role,
            folder=str(self._folder),
            settings=flatten(self._config),
            threads=spec.threads,
            nice=spec.nice,
            cpus=spec.cpus,
            spin_ms=spec.spin_ms,
            step_stats=self._stats is not NULL,
            launched_ns=time.monotonic_ns(),
        )


def _supervisor_limits(config: DeployConfig) -> SupervisorLimits:
    orchestrator = config.orchestrator
    return SupervisorLimits(
        init_deadline_s=config.llm.init_deadline_s,
        silence_s=max(config.limits.progress_deadline_s, _MISSED_BEATS * BEAT_S),
        stop_grace_s=orchestrator.stop_grace_s,
        backoff_s=orchestrator.restart_backoff_s,
        backoff_max_s=orchestrator.restart_backoff_max_s,
    )
