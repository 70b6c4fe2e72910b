from __future__ import annotations

import pytest

from ouzel.config.probe import DeviceProbe
from ouzel.scheduling import KvGeometry, derive_overrides

GIB = 1 << 30
PUBLISHED = KvGeometry(layers=28, kv_heads=8, head_dim=128, bytes_per_value=2)
AVX512 = frozenset({"avx2", "avx512f", "avx512bw"})
AVX2 = frozenset({"avx2", "fma"})
ARM = frozenset({"asimd", "asimddp"})
OLD_ARM = frozenset({"asimd"})


@pytest.mark.parametrize(
    ("cores", "with_llm", "expected"),
    [
        (1, False, ("colocate", 1, 1, 1)),
        (2, False, ("side_by_side", 1, 1, 0)),
        (4, False, ("side_by_side", 2, 2, 0)),
        (8, False, ("side_by_side", 4, 4, 0)),
        (24, False, ("side_by_side", 8, 4, 0)),
        (2, True, ("side_by_side", 1, 1, 2)),
        (4, True, ("side_by_side", 1, 1, 2)),
        (8, True, ("side_by_side", 2, 2, 4)),
    ],
)
def test_cores_become_threads_and_a_placement(cores: int, with_llm: bool, expected: tuple[str, int, int, int]) -> None:
    derived = derive_overrides(DeviceProbe(8 * GIB, cores, "x86_64", AVX512), PUBLISHED, with_llm=with_llm)
    assert (derived.placement, derived.talker_threads, derived.code2wav_threads, derived.llm_threads) == expected


def test_threads_of_the_language_stage_are_a_setting_where_there_is_one() -> None:
    probe = DeviceProbe(8 * GIB, 8, "x86_64", AVX512)
    assert derive_overrides(probe, PUBLISHED, with_llm=True).settings()["llm.threads"] == 4
    assert "llm.threads" not in derive_overrides(probe, PUBLISHED).settings()


@pytest.mark.parametrize(("gib", "sequences"), [(1, 1), (2, 2), (4, 4), (8, 4), (24, 4)])
def test_memory_becomes_sequences(gib: int, sequences: int) -> None:
    derived = derive_overrides(DeviceProbe(gib * GIB, 2, "x86_64", AVX512), PUBLISHED)
    assert derived.max_num_seqs == sequences
    assert derived.kv_cache_bytes <= gib * GIB // 4


def test_weights_leave_less_for_sequences() -> None:
    probe = DeviceProbe(4 * GIB, 2, "x86_64", AVX512)
    assert derive_overrides(probe, PUBLISHED, weights_bytes=5 * GIB // 2).max_num_seqs == 1
    assert derive_overrides(probe, PUBLISHED, sequence_limit=3).max_num_seqs == 3


@pytest.mark.parametrize(
    ("machine", "features", "cores", "chunk_min", "margin_ms"),
    [
        ("x86_64", AVX512, 2, 2, 50.0),
        ("x86_64", frozenset({"avx2", "amx_int8"}), 2, 2, 50.0),
        ("x86_64", AVX2, 2, 2, 80.0),
        ("x86_64", frozenset({"sse4_2"}), 2, 4, 160.0),
        ("aarch64", ARM, 4, 2, 80.0),
        ("aarch64", OLD_ARM, 4, 4, 160.0),
        ("x86_64", AVX512, 1, 2, 100.0),
    ],
)
def test_the_instruction_set_becomes_caution(
    machine: str, features: frozenset[str], cores: int, chunk_min: int, margin_ms: float
) -> None:
    derived = derive_overrides(DeviceProbe(8 * GIB, cores, machine, features), PUBLISHED)
    assert (derived.chunk_min_frames, derived.margin_ms) == (chunk_min, margin_ms)


def test_a_small_voice_takes_what_its_own_sequences_need() -> None:
    small = KvGeometry(layers=6, kv_heads=2, head_dim=64, bytes_per_value=4)
    derived = derive_overrides(DeviceProbe(1 * GIB, 2, "x86_64", AVX512), small)
    assert (derived.max_num_seqs, derived.kv_cache_bytes) == (4, 4 * 1024 * 2 * 6 * 2 * 64 * 4)
