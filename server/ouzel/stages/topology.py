"""Which stages a deployment has, and what each of them gets of the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ouzel.config.schema import DeployConfig
from ouzel.config.settings import SETTINGS, build
from ouzel.stages.messages import StageRole

__all__ = ["StageSpec", "flatten", "restore", "topology"]


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One stage of the chain; each hands on to the next through a ring, the last one to the server."""

    role: StageRole
    threads: int
    nice: int
    cpus: tuple[int, ...] | None
    #: ring behind it
    ring_bytes: int


def topology(config: DeployConfig, cores: int) -> tuple[StageSpec, ...]:
    """The chain of stages, from text to sound.

    :param cores: how many the server may use; no stage gets more threads than that.
    """
    talker, code2wav = config.talker, config.code2wav
    if config.orchestrator.placement == "colocate" or config.orchestrator.in_process:
        cpus = None if talker.cpus is None or code2wav.cpus is None else tuple({*talker.cpus, *code2wav.cpus})
        threads = _bounded(talker.threads + code2wav.threads, cores, cpus)
        nice = min(talker.nice, code2wav.nice)
        return (StageSpec(StageRole.SPEECH, threads, nice, cpus, code2wav.ring_bytes),)
    return tuple(
        StageSpec(role, _bounded(stage.threads, cores, stage.cpus), stage.nice, stage.cpus, stage.ring_bytes)
        for role, stage in ((StageRole.TALKER, talker), (StageRole.CODE2WAV, code2wav))
    )


def _bounded(threads: int, cores: int, cpus: Sequence[int] | None) -> int:
    return max(1, min(threads, cores if cpus is None else min(cores, len(cpus))))


def flatten(config: DeployConfig) -> dict[str, Any]:
    """Every setting by its dotted name."""
    return {
        f"{section}.{name}": value for section, settings in asdict(config).items() for name, value in settings.items()
    }


def restore(settings: dict[str, Any]) -> DeployConfig:
    """The config that `flatten` was given.

    :raises ConfigError: when a value isn't what the schema says.
    """
    source = "the server's setup"
    values = {name: SETTINGS[name].convert(value, source) for name, value in settings.items()}
    return build(values, dict.fromkeys(values, source))
