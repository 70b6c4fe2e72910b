"""A stage's life: set up, build its core, serve; in a process of its own or in a thread."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from ouzel.errors import ConfigError, EngineError, OuzelError
from ouzel.stages.channel import Channel
from ouzel.stages.colocate import SpeechCore
from ouzel.stages.core import EngineCore
from ouzel.stages.language import LanguageEngine
from ouzel.stages.loop import StageLoop
from ouzel.stages.messages import Failed, Fault, Progress, Ready, Setup, StageRole
from ouzel.stages.topology import restore
from ouzel.stats.dump import FOLDER_VARIABLE, dump
from ouzel.stats.steps import NULL, Stats, StepStats
from ouzel.stats.timeline import InitTimeline, Span

__all__ = ["ReportingTimeline", "load_factory", "run_stage"]

log = logging.getLogger(__name__)

AnyCore = EngineCore[Any, Any, Any]


class ReportingTimeline(InitTimeline):
    """An init timeline that says when a phase begins, so that a stuck start can be named."""

    def __init__(
        self, process: str, report: Callable[[str], None], clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        super().__init__(process, clock)
        self._report = report

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._report(name)
        with super().phase(name):
            yield


def run_stage(channel: Channel, setup: Setup) -> bool:
    """Become the stage that `setup` describes, until the server says stop or is gone.

    Answers False when the core couldn't be built; the server was told why.
    """
    started = Span(setup.role, "start process", setup.launched_ns, time.monotonic_ns() - setup.launched_ns)
    timeline = ReportingTimeline(setup.role, lambda phase: channel.send(Progress(phase)))
    stats: list[StepStats] = []
    try:
        core = _build(setup, timeline, stats)
    except OuzelError as error:
        channel.send(Failed(Fault.of(error)))
        return False
    except Exception as error:  # a fault of ours, or of a library's own kind: whoever waits must hear of it too
        log.exception("the %s stage can't start", setup.role)
        channel.send(Failed(Fault.of(EngineError(f"{setup.role} can't start: {error!r}"))))
        return False
    spans = (started, *timeline.spans)
    if setup.role is StageRole.LLM:
        language = cast(LanguageEngine, core)
        channel.send(Ready(spans, language.facts))
        StageLoop(core, channel, stats, lambda: language.counters).run()
    else:
        channel.send(Ready(spans))
        StageLoop(core, channel, stats).run()
    if folder := os.environ.get(FOLDER_VARIABLE):
        for one in stats:
            dump(one.snapshot(), folder)
    return True


def load_factory(name: str) -> Callable[..., AnyCore]:
    """What `module:function` names.

    :raises ConfigError: when there is no such module or function.
    """
    module, _, function = name.partition(":")
    try:
        found: Callable[..., AnyCore] = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"engine factory {name!r}: {error}; expected module:function", param="factory") from error
    return found


def _build(setup: Setup, timeline: InitTimeline, stats: list[StepStats]) -> AnyCore:
    config = restore(dict(setup.settings))

    def core(name: StageRole, factory: str) -> AnyCore:
        with timeline.phase(f"import {name}"):
            build = load_factory(factory)
        if (torch := sys.modules.get("torch")) is not None:
            # A process has this from its environment already; in a thread, torch may be older than the stage.
            torch.set_num_threads(setup.threads)
        counted: Stats = NULL
        if setup.step_stats or os.environ.get(FOLDER_VARIABLE):
            counted = StepStats(name)
            stats.append(counted)
        return build(Path(setup.folder), config, timeline, counted)

    match setup.role:
        case StageRole.TALKER:
            return core(StageRole.TALKER, config.talker.factory)
        case StageRole.CODE2WAV:
            return core(StageRole.CODE2WAV, config.code2wav.factory)
        case StageRole.LLM:
            return core(StageRole.LLM, config.llm.factory)
        case StageRole.SPEECH:
            talker = core(StageRole.TALKER, config.talker.factory)
            return SpeechCore(talker, core(StageRole.CODE2WAV, config.code2wav.factory))
