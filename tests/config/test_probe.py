from __future__ import annotations

from pathlib import Path

import pytest

from ouzel.config.probe import (
    parse_cgroup_paths,
    parse_cpu_max,
    parse_cpuinfo,
    parse_meminfo,
    parse_memory_limit,
    probe_device,
)

EPYC = """\
processor\t: 0
model name\t: AMD EPYC 9R14
flags\t\t: fpu sse4_2 avx2 avx512f avx512bw avx512_bf16 avx512_vnni
bugs\t\t: sysret_ss_attrs

processor\t: 1
flags\t\t: fpu sse4_2 avx2 avx512f avx512bw avx512_bf16 avx512_vnni
"""
BIG_LITTLE = """\
processor\t: 0
Features\t: fp asimd aes asimdhp
CPU part\t: 0xd03

processor\t: 4
Features\t: fp asimd aes asimdhp asimddp i8mm bf16
"""
MEMINFO = "MemTotal:        8024692 kB\nMemFree:          120016 kB\n"


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_features_are_those_that_all_cores_have() -> None:
    assert "avx512_vnni" in parse_cpuinfo(EPYC) and "sysret_ss_attrs" not in parse_cpuinfo(EPYC)
    assert parse_cpuinfo(BIG_LITTLE) == {"fp", "asimd", "aes", "asimdhp"}
    assert parse_cpuinfo("processor : 0\n") == frozenset()


@pytest.mark.parametrize(
    ("text", "cores"),
    [("max 100000\n", None), ("150000 100000\n", 1.5), ("200000 100000", 2.0), ("-1 100000", None), ("", None)],
)
def test_a_quota_is_a_number_of_cores(text: str, cores: float | None) -> None:
    assert parse_cpu_max(text) == cores


@pytest.mark.parametrize(("text", "limit"), [("max\n", None), ("2147483648\n", 2 << 30), ("", None)])
def test_a_memory_limit_is_bytes_or_none(text: str, limit: int | None) -> None:
    assert parse_memory_limit(text) == limit


def test_memory_and_control_groups_are_read_from_their_lines() -> None:
    assert parse_meminfo(MEMINFO) == 8024692 * 1024
    assert parse_meminfo("") == 0
    assert parse_cgroup_paths("4:memory:/a/b\n1:cpu,cpuacct:/c\n0::/d\n") == {
        "memory": "/a/b",
        "cpu": "/c",
        "cpuacct": "/c",
        "": "/d",
    }


def test_without_limits_the_machine_is_the_device(tmp_path: Path) -> None:
    root = put(tmp_path, {"proc/meminfo": MEMINFO, "proc/cpuinfo": EPYC, "proc/self/cgroup": "0::/\n"})
    probe = probe_device(root, affinity=lambda: 2, machine=lambda: "x86_64")
    assert (probe.memory_bytes, probe.cores, probe.machine) == (8024692 * 1024, 2, "x86_64")
    assert "avx512_bf16" in probe.features


def test_the_tightest_folder_of_a_version_2_group_counts(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "0::/system.slice/ouzel.service\n",
            "sys/fs/cgroup/system.slice/ouzel.service/memory.max": "max\n",
            "sys/fs/cgroup/system.slice/ouzel.service/cpu.max": "270000 100000\n",
            "sys/fs/cgroup/system.slice/memory.max": f"{3 << 30}\n",
        },
    )
    probe = probe_device(root, affinity=lambda: 8, machine=lambda: "aarch64")
    assert (probe.memory_bytes, probe.cores) == (3 << 30, 2)


def test_version_1_groups_count_also_where_the_path_is_outside_the_container(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "4:memory:/outer/abc\n1:cpu:/\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{1 << 30}\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    probe = probe_device(root, affinity=lambda: 4, machine=lambda: "x86_64")
    assert (probe.memory_bytes, probe.cores) == (1 << 30, 1)


def test_an_unlimited_version_1_group_limits_nothing(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "4:memory:/\n1:cpu:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
    )
    probe = probe_device(root, affinity=lambda: 4, machine=lambda: "x86_64")
    assert (probe.memory_bytes, probe.cores) == (8024692 * 1024, 4)


def test_this_machine_can_be_probed() -> None:
    probe = probe_device()
    assert probe.memory_bytes > 1 << 26 and probe.cores >= 1 and probe.features


def test_a_phone_is_known_by_androids_build_properties(tmp_path: Path) -> None:
    root = put(tmp_path, {"proc/meminfo": MEMINFO})
    assert not probe_device(root).phone
    put(tmp_path, {"system/build.prop": "ro.build.version.sdk=36\n"})
    assert probe_device(root).phone
