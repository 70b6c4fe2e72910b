"""Starts the stages, joins them with rings, watches them, and starts a dead one again.

Each incarnation of a stage gets new rings on both sides; a neighbour that lives is handed its end of them. Death is the
end of file on the control channel, a stuck start is one that reports no phase, a stuck loop one that doesn't beat.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from ouzel.errors import EngineError, NotReadyError, OuzelError
from ouzel.scheduling import ProgressDeadline
from ouzel.stages.backoff import Backoff
from ouzel.stages.language import LanguageFacts
from ouzel.stages.launch import Launch, Launched
from ouzel.stages.messages import Attach, Failed, FromStage, Progress, Ready, Setup, Stop, ToStage
from ouzel.stages.topology import StageSpec
from ouzel.stats.timeline import Span
from ouzel.transfer import Ring, RingReader

__all__ = ["StageState", "StageStatus", "Supervisor", "SupervisorLimits", "Watcher"]

log = logging.getLogger(__name__)


class StageState(StrEnum):
    """Where a stage is."""

    STARTING = "starting"
    READY = "ready"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class StageStatus:
    """A stage at one moment."""

    state: StageState
    pid: int | None
    #: phase of its start, while it starts
    phase: str
    restarts: int
    #: why it was down last
    fault: str
    #: seconds since it last said anything
    silent_s: float


@dataclass(frozen=True, slots=True)
class SupervisorLimits:
    """How long the supervisor waits for what; all in seconds."""

    init_deadline_s: float
    #: A serving stage that says nothing for this long is stuck.
    silence_s: float
    stop_grace_s: float
    backoff_s: float
    backoff_max_s: float
    parallel: bool = True


class Watcher(Protocol):
    """Who is told what happens to the stages."""

    def heard(self, name: str, message: FromStage) -> None:
        """A stage that serves said something."""
        ...

    def went_down(self, name: str, error: OuzelError) -> None:
        """A stage is gone, and everything in it."""
        ...

    def output(self, reader: RingReader) -> None:
        """The ring of the last stage is this one from now on; the one before it is dead."""
        ...


@dataclass(slots=True, eq=False)
class _Stage:
    spec: StageSpec
    setup: Callable[[], Setup]
    backoff: Backoff
    deadline: ProgressDeadline
    live: Launched | None = None
    state: StageState = StageState.DOWN
    phase: str = "start process"
    restarts: int = 0
    #: why this incarnation ends; why the last one did
    cause: OuzelError | None = None
    fault: OuzelError | None = None
    #: before the next incarnation
    pause: asyncio.Future[None] | None = None
    spans: tuple[Span, ...] = ()
    facts: LanguageFacts | None = None
    #: set by whatever ends this incarnation; then by its first success
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ready: asyncio.Event = field(default_factory=asyncio.Event)


class Supervisor:
    """Owns the stages of one server, on one event loop."""

    def __init__(
        self,
        specs: Sequence[StageSpec],
        setup: Callable[[StageSpec], Setup],
        watcher: Watcher,
        limits: SupervisorLimits,
        launch: Launch,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._watcher = watcher
        self._limits = limits
        self._launch = launch
        self._clock = clock
        self._sleep = sleep
        self._stages = [
            _Stage(
                spec,
                lambda spec=spec: setup(spec),  # type: ignore[misc]  # mypy sees no type for a default of a lambda
                Backoff(limits.backoff_s, limits.backoff_max_s, clock),
                ProgressDeadline(limits.init_deadline_s, clock),
            )
            for spec in specs
        ]
        self._by_name = {str(stage.spec.role): stage for stage in self._stages}
        self._keepers: list[asyncio.Task[None]] = []
        self._stopping = False

    @property
    def spans(self) -> tuple[Span, ...]:
        """The init timeline of the stages that run now."""
        return tuple(span for stage in self._stages for span in stage.spans)

    @property
    def facts(self) -> LanguageFacts | None:
        """What the language stage among them said of itself when it was ready last."""
        return next((stage.facts for stage in self._stages if stage.facts is not None), None)

    def status(self) -> dict[str, StageStatus]:
        """Each stage, by name."""
        return {name: self._status(stage) for name, stage in self._by_name.items()}

    def check_ready(self) -> None:
        """:raises NotReadyError: while a stage isn't serving; says which and why."""
        for name, stage in self._by_name.items():
            if stage.state is not StageState.READY:
                why = f"it died: {stage.fault}" if stage.fault else stage.phase
                raise NotReadyError(f"the {name} stage is {stage.state} ({why}); try again shortly")

    async def start(self) -> None:
        """Start all stages, and return when all of them serve.

        :raises OuzelError: what keeps a stage from its first start; then none is left running.
        """
        self._stopping = False
        for stage in self._stages:
            stage.fault = None
            stage.ready.clear()
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop)
            for stage in self._stages:
                self._keepers.append(asyncio.create_task(self._keep(stage), name=f"keep {stage.spec.role}"))
                if not self._limits.parallel:
                    await self._first_start([stage])
            await self._first_start(self._stages)
            undo.pop_all()

    def send(self, name: str, message: ToStage) -> None:
        """Say something to a stage; to one that is down it is lost."""
        stage = self._by_name[name]
        if stage.live is not None:
            self._say(stage, message)

    async def stop(self) -> None:
        """End all stages within the grace, by force where needed; nothing of them is left."""
        self._stopping = True
        for stage in self._stages:
            if stage.live is not None:
                self._say(stage, Stop())
            if stage.pause is not None:
                stage.pause.cancel()
        if self._keepers:
            await asyncio.wait(self._keepers, timeout=self._limits.stop_grace_s)
        for stage in self._stages:
            stage.ended.set()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        self._keepers.clear()

    async def _first_start(self, stages: Sequence[_Stage]) -> None:
        """Wait until these serve; the first one that dies before ends it."""
        waiting = {asyncio.create_task(stage.ready.wait()): stage for stage in stages}
        keepers = dict(zip(self._keepers, self._stages, strict=False))
        try:
            while pending := [task for task in waiting if not task.done()]:
                await asyncio.wait([*pending, *keepers], return_when=asyncio.FIRST_COMPLETED)
                for keeper, stage in keepers.items():
                    if keeper.done():
                        keeper.result()
                        raise stage.fault or EngineError(f"the {stage.spec.role} stage ended before it served")
        finally:
            for task in waiting:
                task.cancel()

    async def _keep(self, stage: _Stage) -> None:
        """One stage through all its incarnations."""
        while not self._stopping:
            stage.cause = None
            try:
                self._begin(stage)
                await self._watch(stage)
            except (OSError, OuzelError) as error:
                stage.cause = EngineError(f"the {stage.spec.role} stage can't be started: {error}")
            finally:
                await self._bury(stage)
            if self._stopping or not stage.ready.is_set():
                return
            pause = stage.backoff.down()
            log.warning("the %s stage is started again in %.1f s: %s", stage.spec.role, pause, stage.fault)
            stage.pause = asyncio.ensure_future(self._sleep(pause))
            await asyncio.wait([stage.pause])
            stage.pause = None
            stage.restarts += 1

    def _begin(self, stage: _Stage) -> None:
        stage.ended.clear()
        stage.phase, stage.state = "start process", StageState.STARTING
        stage.deadline = ProgressDeadline(self._limits.init_deadline_s, self._clock)
        stage.live = self._launch(stage.setup())
        asyncio.get_running_loop().add_reader(stage.live.channel.fileno(), self._hear, stage)
        self._join(stage)

    def _join(self, stage: _Stage) -> None:
        """New rings to both neighbours that are there; those that aren't will do the same when they start."""
        place = self._stages.index(stage)
        if place and self._stages[place - 1].live is not None:
            self._connect(self._stages[place - 1], stage)
        if stage is self._stages[-1]:
            self._connect(stage, None)
        elif self._stages[place + 1].live is not None:
            self._connect(stage, self._stages[place + 1])

    def _connect(self, writer: _Stage, reader: _Stage | None) -> None:
        if writer.spec.ring_bytes is None:
            return
        ring = Ring.create(writer.spec.ring_bytes)
        try:
            self._say(writer, Attach("output"), ring.descriptors())
            if reader is None:
                self._watcher.output(ring.reader())
            else:
                self._say(reader, Attach("input"), ring.descriptors())
        finally:
            ring.close()

    async def _watch(self, stage: _Stage) -> None:
        """Until this incarnation has ended, or is stuck."""
        while not stage.ended.is_set():
            try:
                await asyncio.wait_for(
                    stage.ended.wait(), min(stage.deadline.remaining_s, self._limits.silence_s) + 0.01
                )
            except TimeoutError:
                # What it said while this loop was held up counts.
                self._hear(stage)
                if stage.deadline.expired and not stage.ended.is_set():
                    self._give_up(stage)

    def _give_up(self, stage: _Stage) -> None:
        name, silent = stage.spec.role, stage.deadline.idle_s
        if stage.state is StageState.STARTING:
            stage.cause = EngineError(f"the {name} stage made no progress for {silent:.0f} s in phase {stage.phase!r}")
        else:
            stage.cause = EngineError(f"the {name} stage has said nothing for {silent:.0f} s")
        stage.ended.set()

    async def _bury(self, stage: _Stage) -> None:
        """Leave nothing of an incarnation, and tell why it ended."""
        live = stage.live
        if live is None:
            stage.fault = stage.cause
            return
        name, served, stage.live = stage.spec.role, stage.state is StageState.READY, None
        stage.state = StageState.DOWN
        loop = asyncio.get_running_loop()
        loop.remove_reader(live.channel.fileno())
        loop.remove_writer(live.channel.fileno())
        if served and not self._stopping:
            self._watcher.went_down(name, stage.cause or EngineError(f"the {name} stage died; it is started again"))
        live.kill()
        live.channel.close()
        how = await live.wait()
        if not self._stopping:
            stage.fault = stage.cause or EngineError(f"the {name} stage died ({how})")

    def _hear(self, stage: _Stage) -> None:
        if stage.live is None:
            return
        channel = stage.live.channel
        while not stage.ended.is_set():
            try:
                received = channel.receive()
            except EngineError as error:
                stage.cause = error
                stage.ended.set()
                return
            if received is None:
                break
            stage.deadline.progress()
            self._take(stage, received.message)  # type: ignore[arg-type]  # a stage says nothing else
        if channel.ended:
            stage.ended.set()

    def _take(self, stage: _Stage, message: FromStage) -> None:
        match message:
            case Progress(phase):
                stage.phase = phase
            case Failed(fault):
                stage.cause = fault.error()
            case Ready(spans, facts):
                stage.spans, stage.facts = spans, facts
                stage.fault, stage.state = None, StageState.READY
                stage.deadline = ProgressDeadline(self._limits.silence_s, self._clock)
                stage.backoff.up()
                stage.ready.set()
            case _:
                self._watcher.heard(stage.spec.role, message)

    def _say(self, stage: _Stage, message: ToStage, descriptors: Sequence[int] = ()) -> None:
        assert stage.live is not None
        channel = stage.live.channel
        channel.send(message, descriptors)
        if channel.wants_room:
            asyncio.get_running_loop().add_writer(channel.fileno(), self._flush, stage.live)

    def _flush(self, live: Launched) -> None:
        live.channel.flush()
        if not live.channel.wants_room:
            asyncio.get_running_loop().remove_writer(live.channel.fileno())

    def _status(self, stage: _Stage) -> StageStatus:
        pid = None if stage.live is None else stage.live.pid
        fault = "" if stage.fault is None else str(stage.fault)
        return StageStatus(stage.state, pid, stage.phase, stage.restarts, fault, stage.deadline.idle_s)
