from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.stats.dump import dump, load
from ouzel.stats.phases import Phase
from ouzel.stats.snapshot import Series, Snapshot, merge
from ouzel.stats.steps import StepStats

NS = st.integers(0, 10**12)
BUCKETS = st.dictionaries(st.integers(0, 300), st.integers(1, 9), max_size=4)
SERIES = st.builds(Series, st.integers(0, 99), NS, NS, BUCKETS)
PHASES = st.dictionaries(st.sampled_from(Phase), SERIES, max_size=4)
SNAPSHOTS = st.builds(Snapshot, st.sampled_from(["talker", "code2wav"]), st.integers(0, 999), SERIES, PHASES, PHASES)


@given(SNAPSHOTS)
def test_json_and_back(snapshot: Snapshot) -> None:
    assert Snapshot.from_json(snapshot.to_json()) == snapshot


@given(st.lists(SNAPSHOTS, max_size=5))
def test_merging_loses_nothing_and_comes_out_the_same_in_any_order(snapshots: list[Snapshot]) -> None:
    merged = merge(snapshots)
    assert merged == merge(reversed(snapshots)) == merge(merged)
    assert sum(one.frames for one in merged) == sum(one.frames for one in snapshots)
    for phase in Phase:
        assert total(merged, phase) == total(snapshots, phase)


def total(snapshots: list[Snapshot], phase: Phase) -> int:
    return sum(one.inside[phase].total_ns for one in snapshots if phase in one.inside)


def test_dumps_of_one_folder_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "new" / "folder"
    for pid, frames in ((1, 3), (2, 4)):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        stats = StepStats("talker")
        stats.made(frames)
        dump(stats.snapshot(), folder)
    dump(StepStats("code2wav").snapshot(), folder)
    assert [(one.process, one.frames) for one in load(folder)] == [("code2wav", 0), ("talker", 7)]
    assert sorted(path.name for path in folder.iterdir()) == ["code2wav.2.json", "talker.1.json", "talker.2.json"]


@pytest.mark.parametrize("torn", ['{"process": "talker", "fra', "[]", '{"process": "talker"}'])
def test_a_file_that_is_no_dump_is_named(tmp_path: Path, torn: str) -> None:
    (tmp_path / "talker.1.json").write_text(torn)
    with pytest.raises(ValueError, match=r"talker\.1\.json is not a dump"):
        load(tmp_path)
