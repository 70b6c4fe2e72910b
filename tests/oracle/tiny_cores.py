"""Engine cores over the tiny voice, requests for them, and loops that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ouzel.engines.talker import PrefillPolicy, TalkerCore
from ouzel.models.qwen3_tts.checkpoint import TalkerSide, load_talker_side
from ouzel.scheduling import Admission, ChunkSchedule
from ouzel.stages.core import CodesChunk, SamplingWishes, TalkerRequest

SENTENCES = ("Hello there, the World!", "the user's 12", "hello")
LIMIT = 20
SEEDS = (3, 6, 9, 11)  # none of them ends before the limit


class Clock:
    """Nanoseconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)


@cache
def talker_side(folder: Path) -> TalkerSide:
    return load_talker_side(folder)


def talker_core(
    folder: Path, *, rows: int = 64, hold_s: float = 2.0, sequences: int = 4, waiting: int = 8, **others: Any
) -> TalkerCore:
    return TalkerCore(
        talker_side(folder),
        admission=Admission(4096, sequences, waiting),
        schedule=ChunkSchedule((2, 4, 8)),
        prefill=PrefillPolicy(rows, margin_s=0.05, max_hold_s=hold_s),
        **others,
    )


def request(slot: int = 0, text: str | None = SENTENCES[0], **changes: Any) -> TalkerRequest:
    """Speech that runs into its frame limit, each slot with a seed of its own."""
    sampling = SamplingWishes(seed=SEEDS[slot])
    plain = TalkerRequest(
        slot=slot, epoch=1, text=text, max_frames=LIMIT, granted_frames=1000, language="english", sampling=sampling
    )
    return replace(plain, **changes)


def run(core: TalkerCore, before: Callable[[int], None] = lambda step: None) -> list[CodesChunk]:
    """Step until nothing is left to do; `before` is told each step's number."""
    chunks: list[CodesChunk] = []
    step = 0
    before(step)
    while core.has_work:
        chunks += core.step()
        step += 1
        before(step)
    return chunks


def codes_of(chunks: Iterable[CodesChunk], slot: int = 0) -> NDArray[np.uint16]:
    """All frames of a slot, [F, G], after a look at how its chunks follow each other."""
    own = [chunk for chunk in chunks if chunk.slot == slot]
    assert [chunk.sequence for chunk in own] == list(range(len(own)))
    assert [chunk.last for chunk in own] == [False] * (len(own) - 1) + [True]
    return np.concatenate([chunk.codes for chunk in own])


def alone(folder: Path, one: TalkerRequest) -> NDArray[np.uint16]:
    core = talker_core(folder)
    core.add(one)
    return codes_of(run(core), one.slot)
