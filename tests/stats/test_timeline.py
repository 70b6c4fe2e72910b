from __future__ import annotations

import json
from contextlib import suppress

from ouzel.stats.timeline import InitTimeline, Span, render, to_json


def test_a_start_is_a_list_of_phases() -> None:
    times = iter([10, 30, 30, 100])
    timeline = InitTimeline("talker", clock=lambda: next(times))
    with timeline.phase("import"):
        pass
    with timeline.phase("weights"):
        pass
    assert timeline.spans == (Span("talker", "import", 10, 20), Span("talker", "weights", 30, 70))
    assert json.loads(json.dumps(to_json(timeline.spans)))[0] == {
        "process": "talker", "name": "import", "start_ns": 10, "duration_ns": 20,
    }  # fmt: skip


def test_a_phase_that_fails_is_left_out() -> None:
    timeline = InitTimeline("talker")
    with suppress(OSError), timeline.phase("weights"):
        raise OSError
    assert timeline.spans == ()


def test_starts_share_one_axis() -> None:
    spans = [
        Span("code2wav", "import", 5_500_000_000, 500_000_000),
        Span("talker", "import", 5_000_000_000, 1_000_000_000),
        Span("talker", "weights", 6_000_000_000, 1_000_000_000),
    ]
    assert render(spans).splitlines() == [
        "process   phase      from s    took s",
        "talker    import      0.000     1.000  " + "█" * 20,
        "code2wav  import      0.500     0.500  " + " " * 10 + "█" * 10,
        "talker    weights     1.000     1.000  " + " " * 20 + "█" * 20,
    ]
    assert render([]) == "init timeline: empty"
