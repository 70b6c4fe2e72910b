"""How many threads for which stage: every split of this process's cores, with the milliseconds of a frame in each.

Side by side, talker and code2wav have a process each, and together never more threads than there are cores; colocated,
they take turns on all of them. The arms take turns in short passes, because a machine's speed changes while one
measures it. Each pass is kept in `--out` as it ends: a run that was stopped goes on where it was.

    python benchmarks/tts/cpu_thread_sweep.py [--voice NAME_OR_FOLDER] [--passes 3] [--streams 1] [--out sweep.json]
        [--plot sweep.svg]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ouzel import AsyncOmni
from ouzel.stats.phases import FRAME_NS, Phase
from ouzel.stats.snapshot import Snapshot

TEXT = "The river keeps its own time, and so does a sentence that is spoken while it is still being made."


@dataclass(frozen=True)
class Arm:
    """One way to share the cores."""

    placement: str
    talker: int
    code2wav: int

    @property
    def name(self) -> str:
        if self.placement == "colocate":
            return f"colocated {self.talker + self.code2wav if self.talker else 1}"
        return f"side by side {self.talker}+{self.code2wav}"

    def settings(self, cpus: Sequence[int]) -> dict[str, object]:
        """The talker's 0 threads are those of one core that both share."""
        shared = {} if self.talker else {"talker.cpus": cpus[:1], "code2wav.cpus": cpus[:1]}
        return {
            "orchestrator.derive": False,
            "orchestrator.placement": self.placement,
            "talker.threads": max(1, self.talker),
            "code2wav.threads": self.code2wav,
            **shared,
        }


def arms(cores: int) -> Iterator[Arm]:
    """Every split, threads in powers of two up to the cores that there are."""
    counts = sorted({1, *(1 << bit for bit in range(1, cores.bit_length()) if 1 << bit <= cores), cores})
    for talker in counts:
        yield from (Arm("side_by_side", talker, code2wav) for code2wav in counts if talker + code2wav <= max(2, cores))
    yield from (Arm("colocate", count - 1, 1) for count in counts)


@dataclass(frozen=True)
class Measured:
    """One pass of one arm."""

    arm: str
    round: int
    rtf: float
    first_audio_ms: float
    stall_ms: float
    #: ms a frame by phase, all processes together
    phases_ms: dict[str, float]


async def measure(arm: Arm, number: int, voice: str, streams: int, cpus: Sequence[int]) -> Measured:
    async with AsyncOmni(voice=voice, settings=arm.settings(cpus), step_stats=True) as omni:
        before = await omni.stats()
        begun = time.monotonic()
        spoken = await asyncio.gather(*(speak(omni, seed) for seed in range(streams)))
        seconds = time.monotonic() - begun
        after = await omni.stats()
    audio_s = sum(frames for _, frames, _ in spoken) * FRAME_NS / 1e9
    return Measured(
        arm=arm.name,
        round=number,
        rtf=seconds / audio_s,
        first_audio_ms=statistics.median(first for first, _, _ in spoken),
        stall_ms=1000 * max(stall for _, _, stall in spoken),
        phases_ms=attribute(before, after),
    )


async def speak(omni: AsyncOmni, seed: int) -> tuple[float, int, float]:
    """First audio in ms, frames, and stall in s."""
    begun, first = time.monotonic(), 0.0
    async with omni.speak(TEXT, seed=seed) as speech:
        async for _ in speech:
            first = first or 1000 * (time.monotonic() - begun)
        return first, speech.frames, sum(speech.gaps_s)


def attribute(before: Sequence[Snapshot], after: Sequence[Snapshot]) -> dict[str, float]:
    """ms a frame in each phase of the steps, the warm-up left out."""
    frames = max(one.frames for one in after) - max(one.frames for one in before)
    return {
        phase.value: (total(after, phase) - total(before, phase)) / 1e6 / frames
        for phase in Phase
        if total(after, phase)
    }


def total(snapshots: Sequence[Snapshot], phase: Phase) -> int:
    return sum(one.inside[phase].total_ns for one in snapshots if phase in one.inside)


def table(results: Sequence[Measured]) -> str:
    """Medians of the passes: one row an arm."""
    names = list(dict.fromkeys(result.arm for result in results))
    phases = [phase.value for phase in Phase if any(phase.value in result.phases_ms for result in results)]
    lines = [f"{'ms a frame':20}" + "".join(f"{head:>11}" for head in (*phases, "step", "RTF", "first ms", "stall ms"))]
    for name in names:
        passes = [result for result in results if result.arm == name]
        cells = list(median_phases(passes, phases).values())
        cells += [sum(cells)] + [
            statistics.median(getattr(one, key) for one in passes) for key in ("rtf", "first_audio_ms", "stall_ms")
        ]
        lines.append(f"{name:20}" + "".join(f"{cell:>11.3f}" for cell in cells))
    return "\n".join(lines)


def median_phases(passes: Sequence[Measured], phases: Sequence[str]) -> dict[str, float]:
    return {phase: statistics.median(one.phases_ms.get(phase, 0.0) for one in passes) for phase in phases}


COLOURS = ("#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#bab0ac")


def plot(results: Sequence[Measured]) -> str:
    """A bar for each arm, its phases stacked, on the scale of the frame's 80 ms; SVG, so that nothing is needed."""
    names = list(dict.fromkeys(result.arm for result in results))
    phases = [phase.value for phase in Phase if any(phase.value in result.phases_ms for result in results)]
    stacks = {name: median_phases([one for one in results if one.arm == name], phases) for name in names}
    most = max(FRAME_NS / 1e6, *(sum(stack.values()) for stack in stacks.values()))
    scale, row = 640 / most, 28
    parts = []
    for place, (name, stack) in enumerate(stacks.items()):
        x, y = 150.0, 20 + row * place
        parts.append(f'<text x="142" y="{y + 14}" text-anchor="end">{name}</text>')
        for colour, (phase, ms) in zip(COLOURS * 2, stack.items(), strict=False):
            width = ms * scale
            title = f"<title>{phase} {ms:.2f} ms</title>"
            parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="20" fill="{colour}">{title}</rect>')
            x += width
        parts.append(f'<text x="{x + 4:.1f}" y="{y + 14}">{sum(stack.values()):.1f}</text>')
    bottom = 30 + row * len(names)
    limit = 150 + FRAME_NS / 1e6 * scale
    parts.append(f'<path d="M{limit:.1f} 12V{bottom}" stroke="#c00" stroke-dasharray="4"/>')
    parts.append(f'<text x="{limit:.1f}" y="10" text-anchor="middle">80 ms</text>')
    for place, (colour, phase) in enumerate(zip(COLOURS * 2, phases, strict=False)):
        x, y = 150 + 90 * (place % 7), bottom + 10 + 18 * (place // 7)
        parts.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 16}" y="{y + 10}">{phase}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="840" height="{bottom + 60}" font-family="sans-serif"'
    return f'{head} font-size="12"><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'


def load(path: Path, about: dict[str, Any]) -> list[Measured]:
    """What an earlier run of the same kind has measured."""
    if not path.exists():
        return []
    kept = json.loads(path.read_text())
    if kept["about"] != about:
        raise SystemExit(f"{path} holds another sweep ({kept['about']}): give another --out")
    return [Measured(**one) for one in kept["passes"]]


def keep(path: Path, about: dict[str, Any], results: Sequence[Measured]) -> None:
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps({"about": about, "passes": [asdict(one) for one in results]}, indent=1) + "\n")
    unfinished.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voice", default="joe")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("sweep.json"))
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()

    cpus = sorted(os.sched_getaffinity(0))
    about = {"voice": options.voice, "streams": options.streams, "cores": len(cpus)}
    results = load(options.out, about)
    done = {(one.arm, one.round) for one in results}
    for number in range(options.passes):
        for arm in arms(len(cpus)):
            if (arm.name, number) in done:
                continue
            results.append(asyncio.run(measure(arm, number, options.voice, options.streams, cpus)))
            keep(options.out, about, results)
            print(f"pass {number + 1}: {arm.name}: RTF {results[-1].rtf:.3f}", flush=True)
    print(table(results))
    if options.plot:
        options.plot.write_text(plot(results))


if __name__ == "__main__":
    main()
