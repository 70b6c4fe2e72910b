"""What this device has: memory, cores and instruction set, as far as this process may use them.

Each parser takes the text of its file, and the probe takes the root that the files lie under, so both are tested with
texts from other machines.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "DeviceProbe",
    "parse_cgroup_paths",
    "parse_cpu_max",
    "parse_cpuinfo",
    "parse_meminfo",
    "parse_memory_limit",
    "probe_device",
]


@dataclass(frozen=True, slots=True)
class DeviceProbe:
    """What a process on this device may use."""

    #: Physical memory or the control group's limit, whichever is less.
    memory_bytes: int
    #: Cores by affinity or the control group's quota, whichever is less; at least 1.
    cores: int
    #: As `uname -m` says it: x86_64, aarch64, armv7l.
    machine: str
    #: The kernel's names (avx2, avx512f, amx_int8, asimddp, …) that every core has.
    features: frozenset[str]
    #: Android, where neither vLLM nor a process of one's own choice runs.
    phone: bool = False


def probe_device(
    root: Path = Path("/"),
    *,
    affinity: Callable[[], int] = lambda: len(os.sched_getaffinity(0)),
    machine: Callable[[], str] = platform.machine,
) -> DeviceProbe:
    """Read /proc and /sys/fs/cgroup (version 2 and 1) under `root`; a file that isn't there limits nothing."""
    memory = parse_meminfo(_read(root / "proc/meminfo"))
    cores = affinity()
    for folder in _cgroup_folders(root):
        limits = (parse_memory_limit(_read(folder / name)) for name in ("memory.max", "memory.limit_in_bytes"))
        memory = min([memory, *(limit for limit in limits if limit is not None)])
        quota = parse_cpu_max(_read(folder / "cpu.max") or _version_1_quota(folder))
        cores = cores if quota is None else min(cores, int(quota))
    features = parse_cpuinfo(_read(root / "proc/cpuinfo"))
    phone = (root / "system/build.prop").exists()
    return DeviceProbe(memory, max(1, cores), machine(), features, phone)


def parse_meminfo(text: str) -> int:
    """MemTotal of /proc/meminfo in bytes; 0 when it isn't told."""
    for line in text.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def parse_cpuinfo(text: str) -> frozenset[str]:
    """Features that all cores of /proc/cpuinfo share (`flags` on x86, `Features` on ARM)."""
    cores = [
        frozenset(value.split())
        for key, _, value in (line.partition(":") for line in text.splitlines())
        if key.strip() in {"flags", "Features"}
    ]
    return frozenset.intersection(*cores) if cores else frozenset()


def parse_cpu_max(text: str) -> float | None:
    """Cores that a cgroup's `cpu.max` ("quota period", in microseconds) allows; None when it allows all."""
    quota, _, period = text.partition(" ")
    if quota.strip() in {"", "max", "-1"}:
        return None
    return int(quota) / int(period or 100_000)


def parse_memory_limit(text: str) -> int | None:
    """Bytes that a cgroup's `memory.max` or `memory.limit_in_bytes` allows; None when it allows all."""
    return None if text.strip() in {"", "max"} else int(text)


def parse_cgroup_paths(text: str) -> dict[str, str]:
    """/proc/self/cgroup as controller → path; the one hierarchy of version 2 has the name ''."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _cgroup_folders(root: Path) -> Iterator[Path]:
    # A limit may be set on any folder above ours. In a container our path may not exist below the mount: its root does.
    paths = parse_cgroup_paths(_read(root / "proc/self/cgroup"))
    mount = root / "sys/fs/cgroup"
    for base, controller in ((mount, ""), (mount / "memory", "memory"), (mount / "cpu", "cpu")):
        folder = base / paths.get(controller, "/").lstrip("/")
        yield folder
        while folder != base:
            folder = folder.parent
            yield folder


def _version_1_quota(folder: Path) -> str:
    return f"{_read(folder / 'cpu.cfs_quota_us').strip()} {_read(folder / 'cpu.cfs_period_us').strip()}".strip()


def _read(path: Path) -> str:
    return path.read_text() if path.is_file() else ""
