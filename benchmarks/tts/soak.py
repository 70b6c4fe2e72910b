"""Many short requests, some of them aborted at random, and what is left behind.

    python benchmarks/tts/soak.py [--requests 200] [--at-once 4] [--voice NAME_OR_FOLDER] [--set NAME=VALUE] [--json F]

Exits with 1 where a request didn't end exactly once, sound was lost or made up, or something grew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ouzel import AsyncOmni
from ouzel.stages.core import FinishReason

SAMPLES_PER_FRAME = 1920
#: requests after which memory counts: allocators and caches have seen every shape by then
WARM = 50
MOST_RSS_MB_A_REQUEST = 0.05

WORDS = "the river keeps its own time and so does a sentence that is spoken while it is being made".split()


@dataclass
class Soak:
    """The keys of the JSON file."""

    requests: int = 0
    ended_once: int = 0
    finished: int = 0
    aborted: int = 0
    #: of finished requests; the second is 1,920 times the first
    frames_made: int = 0
    samples_received: int = 0
    #: aborted requests that received more than was made
    overfull: int = 0
    rss_growth_mb: float = 0.0
    fd_growth: int = 0
    task_growth: int = 0
    seconds: float = 0.0
    seed: int = 0
    endings: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Holdings:
    """What the server and its stages hold."""

    rss_mb: float
    descriptors: int
    tasks: int

    @classmethod
    def of(cls, omni: AsyncOmni) -> Holdings:
        pids = {os.getpid(), *(stage.pid for stage in omni.health().stages.values() if stage.pid)}
        rss = sum(_rss_anon_kb(pid) for pid in pids) / 1024
        descriptors = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)
        return cls(rss, descriptors, len(asyncio.all_tasks()))


def _rss_anon_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


async def one_request(omni: AsyncOmni, dice: random.Random, soak: Soak, *, aborted: bool) -> None:
    sentence = " ".join(dice.choices(WORDS, k=dice.randint(1, 5))).capitalize() + "."
    speech = omni.speak(sentence, seed=dice.randrange(1 << 31))
    if aborted:
        asyncio.get_running_loop().call_later(0.3 * dice.random(), speech.abort)
    samples = ends = 0
    async for chunk in speech:
        samples += len(chunk.samples)
    ends += speech.finish is not None
    # Nothing may follow the end.
    ends += len([chunk async for chunk in speech])
    soak.ended_once += ends == 1
    soak.endings[str(speech.finish)] = soak.endings.get(str(speech.finish), 0) + 1
    if speech.finish is FinishReason.CANCELLED:
        soak.aborted += 1
        soak.overfull += samples > SAMPLES_PER_FRAME * speech.frames
    else:
        soak.finished += 1
        soak.frames_made += speech.frames
        soak.samples_received += samples


async def run(omni: AsyncOmni, requests: int, at_once: int, seed: int) -> Soak:
    soak, dice = Soak(seed=seed), random.Random(seed)
    warm: Holdings | None = None
    begun = time.monotonic()

    async def client(until: int) -> None:
        while soak.requests < until:
            soak.requests += 1
            await one_request(omni, dice, soak, aborted=dice.random() < 1 / 3)

    # In two parts, because holdings are compared while nothing is open.
    for until in (min(WARM, requests // 2), requests):
        await asyncio.gather(*(client(until) for _ in range(at_once)))
        await asyncio.sleep(0.5)
        now = Holdings.of(omni)
        if warm is not None:
            soak.rss_growth_mb = round(now.rss_mb - warm.rss_mb, 3)
            soak.fd_growth, soak.task_growth = now.descriptors - warm.descriptors, now.tasks - warm.tasks
        warm = warm or now
    soak.seconds = round(time.monotonic() - begun, 1)
    return soak


def faults(soak: Soak) -> list[str]:
    after_warm = max(1, soak.requests - WARM)
    found = {
        "a request didn't end exactly once": soak.ended_once != soak.requests,
        "sound of finished requests isn't 1,920 samples a frame": soak.samples_received
        != SAMPLES_PER_FRAME * soak.frames_made,
        "an aborted request received more than was made": soak.overfull > 0,
        "memory grows": soak.rss_growth_mb > MOST_RSS_MB_A_REQUEST * after_warm,
        "descriptors grow": soak.fd_growth > 0,
        "tasks grow": soak.task_growth > 0,
    }
    return [fault for fault, is_so in found.items() if is_so]


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--voice", default="joe")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    settings = dict(setting.split("=", 1) for setting in options.set)
    async with AsyncOmni(voice=options.voice, settings=settings) as omni:
        soak = await run(omni, options.requests, options.at_once, options.seed)
    for name, value in asdict(soak).items():
        print(f"{name:20}{value}")
    if options.json:
        options.json.write_text(json.dumps(asdict(soak), indent=2) + "\n")
    for fault in (found := faults(soak)):
        print(f"FAULT: {fault}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
