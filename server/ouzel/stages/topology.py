"""Which stages a deployment has, and what each of them gets of the device."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from ouzel.config.schema import DeployConfig
from ouzel.config.settings import SETTINGS, build
from ouzel.errors import ConfigError
from ouzel.stages.messages import StageRole

__all__ = ["StageSpec", "flatten", "language_stage", "restore", "topology"]


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One stage; in a chain each hands on to the next through a ring, the last one to the server."""

    role: StageRole
    threads: int
    nice: int
    cpus: tuple[int, ...] | None
    #: ring behind it; None where what it makes leaves over its control channel
    ring_bytes: int | None
    #: how long its threads wait awake for one another
    spin_ms: int = 0


def topology(config: DeployConfig, cores: int, available: Collection[int]) -> tuple[StageSpec, ...]:
    """The chain of stages, from text to sound; never more busy threads than cores.

    :param cores: how many the server may use; colocated, the stages take turns on all of theirs.
    :param available: which ones these are.
    :raises ConfigError: when a stage is to stay on a core that isn't available, or the stages together have more
        threads than cores. Two of one thread each may share one core.
    """
    talker, code2wav = config.talker, config.code2wav
    _check_cpus(config, available)
    if config.orchestrator.placement == "colocate" or config.orchestrator.in_process:
        cpus = None if talker.cpus is None or code2wav.cpus is None else tuple({*talker.cpus, *code2wav.cpus})
        threads = min(talker.threads + code2wav.threads, _usable(cores, cpus))
        nice = min(talker.nice, code2wav.nice)
        return (StageSpec(StageRole.SPEECH, threads, nice, cpus, code2wav.ring_bytes),)
    _check_threads(config, cores)
    return tuple(
        StageSpec(role, stage.threads, stage.nice, stage.cpus, stage.ring_bytes)
        for role, stage in ((StageRole.TALKER, talker), (StageRole.CODE2WAV, code2wav))
    )


def language_stage(config: DeployConfig, cores: int, available: Collection[int]) -> StageSpec:
    """The stage that writes text, beside the chain: its nice value, not its threads, leaves the cores to speech.

    :raises ConfigError: when it is to stay on a core that isn't available, or has more threads than cores.
    """
    llm = config.llm
    _check_own_cpus("llm.cpus", llm.cpus, available)
    _check_own_threads("llm", llm.threads, _usable(cores, llm.cpus))
    return StageSpec(StageRole.LLM, llm.threads, llm.nice, llm.cpus, None, llm.spin_ms)


def _check_cpus(config: DeployConfig, available: Collection[int]) -> None:
    for name, cpus in (("talker.cpus", config.talker.cpus), ("code2wav.cpus", config.code2wav.cpus)):
        _check_own_cpus(name, cpus, available)


def _check_own_cpus(name: str, cpus: tuple[int, ...] | None, available: Collection[int]) -> None:
    if cpus is not None and not set(cpus) <= set(available):
        raise ConfigError(f"{name} is {list(cpus)}; this process may use {sorted(available)}", param=name)
    if cpus == ():
        raise ConfigError(f"{name} is empty; give at least one core, or null for all", param=name)


def _check_own_threads(name: str, threads: int, most: int) -> None:
    if threads > most:
        raise ConfigError(f"{name}.threads is {threads}; it has {most} cores", param=f"{name}.threads")


def _check_threads(config: DeployConfig, cores: int) -> None:
    talker, code2wav = config.talker, config.code2wav
    for name, stage in (("talker", talker), ("code2wav", code2wav)):
        _check_own_threads(name, stage.threads, _usable(cores, stage.cpus))
    pinned = None if talker.cpus is None or code2wav.cpus is None else {*talker.cpus, *code2wav.cpus}
    both, most = talker.threads + code2wav.threads, _usable(cores, pinned)
    if both > max(2, most):
        raise ConfigError(
            f"talker.threads {talker.threads} and code2wav.threads {code2wav.threads} are more than the {most} cores "
            "that they have: lower one of them, or colocate both (orchestrator.placement)",
            param="talker.threads",
        )


def _usable(cores: int, cpus: Collection[int] | None) -> int:
    return cores if cpus is None else min(cores, len(cpus))


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
