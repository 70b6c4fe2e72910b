from __future__ import annotations

from typing import Any

from ouzel_client.report import Report


def timing(**changes: Any) -> dict[str, Any]:
    plain = {"frame": 0, "frames": 2, "phases_ms": {"backbone": 8.0, "codec": 24.0}, "starved_ms": 0.0}
    return plain | {"gap_ms": 0.0, "used_ms": 32.0, "budget_ms": 160.0} | changes


def test_the_whole_says_how_soon_how_fast_and_where_the_frame_went() -> None:
    report = Report()
    report.add(timing())
    report.heard(100.0)
    report.add(timing(frame=2, frames=6, phases_ms={"backbone": 24.0, "codec": 40.0}))
    report.heard(160.0)
    *table, whole = report.lines()
    assert [line.split() for line in table] == [
        ["ms", "a", "frame", "of", "80", "ms"],
        ["backbone", "4.000", "5.0", "%"],
        ["codec", "8.000", "10.0", "%"],
        ["all", "12.000", "15.0", "%"],
    ]
    assert whole == "first audio 100 ms, real-time factor 0.250, 8 frames, gaps 0 ms, waiting for text 0 ms"


def test_a_gap_is_told_with_its_chunk_and_its_cause() -> None:
    report = Report()
    assert "GAP" not in report.add(timing())
    assert report.add(timing(gap_ms=30.0)).endswith("GAP 30")
    assert report.add(timing(gap_ms=30.0, starved_ms=90.0)).endswith("GAP 30 waited for text")
    assert "gaps 60 ms, waiting for text 90 ms" in report.lines()[-1]


def test_nothing_spoken_is_no_division() -> None:
    assert Report().lines() == ["no frame was made"]
