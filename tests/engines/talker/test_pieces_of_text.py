from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ouzel.errors import RequestError
from ouzel.stages.core import FinishReason, TextPiece
from tiny_cores import SENTENCES, Clock, alone, codes_of, request, run, talker_core

OPEN = request(text=None)
WHOLE = request(text=SENTENCES[0], streaming_layout=True)
PIECES = [TextPiece(1, piece) for piece in ("Hel", "lo there", ", the Wor", "ld")] + [TextPiece(1, "!", last=True)]


@pytest.mark.parametrize("every", [0, 1, 4])
def test_pieces_are_spoken_as_the_whole_text(tiny_voice: Path, every: int) -> None:
    core = talker_core(tiny_voice)
    core.add(OPEN)
    chunks = []
    for piece in PIECES:
        for _ in range(every):
            chunks += core.step()
        core.feed(0, piece)
    np.testing.assert_array_equal(codes_of([*chunks, *run(core)]), alone(tiny_voice, WHOLE))


def test_late_text_stalls_its_own_stream_and_is_counted(tiny_voice: Path) -> None:
    clock = Clock()
    core = talker_core(tiny_voice, clock=clock)
    core.add(OPEN)
    core.add(request(1, SENTENCES[1]))
    chunks = run(core)
    assert {chunk.slot for chunk in chunks} == {1}
    np.testing.assert_array_equal(codes_of(chunks, 1), alone(tiny_voice, request(1, SENTENCES[1])))
    clock.sleep(3)
    for piece in PIECES:
        core.feed(0, piece)
    first, *others = run(core)
    assert first.starved_ns == 3_000_000_000
    assert {chunk.starved_ns for chunk in others} == {0}


def test_a_text_that_ends_without_a_word_is_an_error_of_that_stream(tiny_voice: Path) -> None:
    core = talker_core(tiny_voice)
    core.add(OPEN)
    run(core)
    core.feed(0, TextPiece(1, " ", last=True))
    (chunk,) = run(core)
    assert (chunk.finish, chunk.frames) == (FinishReason.ERROR, 0)
    assert isinstance(chunk.fault, RequestError)


def test_text_of_an_old_epoch_and_after_the_end_is_dropped(tiny_voice: Path) -> None:
    core = talker_core(tiny_voice)
    core.add(OPEN)
    core.feed(0, TextPiece(0, "nothing of this", last=True))
    for piece in [*PIECES, TextPiece(1, " and more")]:
        core.feed(0, piece)
    np.testing.assert_array_equal(codes_of(run(core)), alone(tiny_voice, WHOLE))


def test_the_frame_limit_falls_when_the_length_of_the_text_is_known(tiny_voice: Path) -> None:
    core = talker_core(tiny_voice)
    core.add(OPEN)
    for piece in PIECES:
        core.feed(0, replace(piece, max_frames=7 if piece.last else None))
    chunks = run(core)
    assert len(codes_of(chunks)) == 7 and chunks[-1].finish is FinishReason.LENGTH
