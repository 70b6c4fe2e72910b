from __future__ import annotations

from ouzel.stats.phases import Phase
from ouzel.stats.snapshot import Series, Snapshot
from ouzel.stats.table import attribution_table

MS = 1_000_000


def test_the_table_shows_ms_a_frame_and_shares_of_80_ms() -> None:
    talker = Snapshot(
        "talker",
        frames=10,
        step=Series(10, 160 * MS, 20 * MS, {0: 10}),
        inside={
            Phase.BACKBONE: Series(10, 80 * MS),
            Phase.PREDICTOR: Series(150, 60 * MS),
            Phase.OTHER: Series(10, 20 * MS),
        },
        beside={Phase.QUEUE: Series(1, 3 * MS, 3 * MS, {0: 1})},
    )
    decoding = {Phase.CODEC: Series(2, 72 * MS), Phase.OTHER: Series(2, 8 * MS)}
    code2wav = Snapshot("code2wav", 10, Series(2, 80 * MS, 50 * MS), decoding, {})
    orchestrator = Snapshot("orchestrator", 0, Series(), {}, {Phase.DISPATCH: Series(4, 2 * MS, MS, {0: 4})})
    assert (
        attribution_table([talker, code2wav, orchestrator])
        == """\
ms a frame        talker    code2wav         all    of 80 ms
backbone           8.000                   8.000      10.0 %
predictor          6.000                   6.000       7.5 %
codec                          7.200       7.200       9.0 %
other              2.000       0.800       2.800       3.5 %
step              16.000       8.000      24.000      30.0 %
frames                10          10

ms each               of       count        mean         p50         p90         max
step              talker          10      16.000       0.000       0.000      20.000
step            code2wav           2      40.000       0.000       0.000      50.000
queue             talker           1       3.000       0.000       0.000       3.000
dispatch    orchestrator           4       0.500       0.000       0.000       1.000"""
    )


def test_a_process_without_frames_of_its_own_is_divided_by_the_frames_made() -> None:
    talker = Snapshot("talker", 4, Series(), {}, {})
    gateway = Snapshot("gateway", 0, Series(1, 8 * MS, 8 * MS), {Phase.SEND: Series(1, 8 * MS)}, {})
    assert "send               2.000       2.000       2.5 %" in attribution_table([talker, gateway])


def test_without_frames_there_is_nothing_to_divide_by() -> None:
    assert attribution_table([]) == "step statistics: no frame was made"
    assert attribution_table([Snapshot("talker", 0, Series(), {}, {})]) == "step statistics: no frame was made"
