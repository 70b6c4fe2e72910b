"""Several streams at once: does each play without a gap, what does a round of frames take, and who comes after them?

One stream more than the voice speaks at once is asked for, and then as many as the queue takes, and one more.

    python benchmarks/tts/streams_bench.py [--voice NAME_OR_FOLDER] [--set NAME=VALUE] [--json F]

Exits with 1 where a stream had a gap after its playback began, the next one didn't wait, or the bound refused nobody.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ouzel import AsyncOmni
from ouzel.errors import BusyError
from ouzel.orchestrator import Speech
from ouzel.stats.phases import Phase
from ouzel.stats.snapshot import Snapshot

TEXT = "The river keeps its own time, and so does a sentence that is spoken while it is still being made."
#: a shorter silence isn't heard
GAP_S = 0.005


@dataclass
class Streams:
    """The keys of the JSON file."""

    streams: int
    gaps: int
    worst_gap_ms: float
    first_audio_ms: list[float]
    #: s of sound of all streams together, and of computing it
    audio_s: float
    seconds: float
    #: a frame for each stream: the talker's step in the middle, and the codec for all of them
    round_ms: float
    talker_step_ms: float
    codec_frame_ms: float
    #: the talker's longest queue: the next stream waits there until one of these has been made
    queue_ms: float
    #: whether it did, for longer than any of these took to be heard
    next_waited: bool
    bound_refused: bool


@dataclass
class Heard:
    first_s: float
    last_s: float
    frames: int
    gaps_s: list[float]


async def listen(speech: Speech, begun: float) -> Heard:
    first = 0.0
    async with speech:
        async for _ in speech:
            first = first or time.monotonic() - begun
        return Heard(first, time.monotonic() - begun, speech.frames, speech.gaps_s)


async def run(omni: AsyncOmni) -> Streams:
    many, most = omni.config.talker.max_num_seqs, omni.health().most_requests
    begun = time.monotonic()
    *spoken, after = await asyncio.gather(*(listen(omni.speak(TEXT, seed=seed), begun) for seed in range(many + 1)))
    snapshots = await omni.stats()
    step_ms, frame_ms = pace(snapshots)
    queue_s = max(one.beside[Phase.QUEUE].max_ns for one in snapshots if Phase.QUEUE in one.beside) / 1e9
    gaps = [gap for one in spoken for gap in one.gaps_s if gap > GAP_S]
    return Streams(
        streams=many,
        gaps=len(gaps),
        worst_gap_ms=1000 * max(gaps, default=0.0),
        first_audio_ms=[round(1000 * one.first_s, 1) for one in (*spoken, after)],
        audio_s=0.08 * sum(one.frames for one in spoken),
        seconds=max(one.last_s for one in spoken),
        round_ms=step_ms + many * frame_ms,
        talker_step_ms=step_ms,
        codec_frame_ms=frame_ms,
        queue_ms=1000 * queue_s,
        next_waited=queue_s > max(one.first_s for one in spoken),
        bound_refused=await is_refused(omni, most),
    )


def pace(snapshots: Sequence[Snapshot]) -> tuple[float, float]:
    """The talker's step in the middle, and the codec's time a frame; both in ms."""
    by_name = {one.process: one for one in snapshots}
    codec = by_name["code2wav"]
    return by_name["talker"].step.p50_ns / 1e6, codec.step.total_ns / codec.frames / 1e6


async def is_refused(omni: AsyncOmni, most: int) -> bool:
    waiting = [omni.speak(TEXT) for _ in range(most)]
    try:
        omni.speak(TEXT)
    except BusyError:
        return True
    finally:
        for speech in waiting:
            speech.abort()
    return False


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voice", default="joe")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    settings = dict(setting.split("=", 1) for setting in options.set)
    async with AsyncOmni(voice=options.voice, settings=settings, step_stats=True) as omni:
        found = await run(omni)
    for name, value in asdict(found).items():
        print(f"{name:16}{value}")
    if options.json:
        options.json.write_text(json.dumps(asdict(found), indent=2) + "\n")
    return 0 if not found.gaps and found.next_waited and found.bound_refused else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
