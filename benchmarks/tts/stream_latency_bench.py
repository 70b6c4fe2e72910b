"""How soon and how steadily a server's speech sounds at the end of its WebSocket, and where a frame's time goes.

    python benchmarks/tts/stream_latency_bench.py [--url http://… | --voice NAME_OR_FOLDER] [--step-stats]
        [--concurrency N] [--passes N] [--arm NAME=2,4,8,16,25 …] [--json F] [--plot F.png]

Without --url it starts a server of its own. Arms are chunk schedules, compared in passes that take turns, so that
what else the machine does meanwhile hits all of them; one plot lane shows the last utterance of each arm.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
from budget_plot import COLOURS, Bar, write_plot

from ouzel_client import Audio, Done, Timing, connect

RATE = 24_000
FRAME_MS = 80.0
#: −50 dBFS: below it nobody hears speech begin
AUDIBLE = 100
THRESHOLDS_MS = (50, 100, 200)
TEXTS = (
    "The river keeps its own time.",
    "A sentence can be spoken while it is still being made, if every part of it is ready soon enough.",
    "Good morning. The train to the coast leaves at ten, and there is room for everyone.",
)


@dataclass
class Heard:
    """One utterance as its listener met it; times in ms from the moment its text was sent."""

    first_audio_ms: float = 0.0
    #: the first sample that can be heard, if it is played at once
    first_sound_ms: float = 0.0
    stall_ms: float = 0.0
    underrun_ms: float = 0.0
    rtf: float = 0.0
    audio_ms: float = 0.0
    reason: str = ""
    bars: list[Bar] = field(default_factory=list)
    starved_ms: float = 0.0


async def listen(url: str, text: str, chunks: Sequence[int] | None, *, timing: bool, key: str | None) -> Heard:
    """Say a text and follow its arrival; a listener starts to play with the first piece."""
    heard, silent, played_until = Heard(), True, 0.0
    async with connect(url, api_key=key, chunk_frames=chunks, timing=timing, seed=1, sample_rate=RATE) as session:
        began = time.perf_counter()
        async for event in session.speak(text):
            now = 1000 * (time.perf_counter() - began)
            match event:
                case Audio(data):
                    if not heard.audio_ms:
                        heard.first_audio_ms = played_until = now
                    gap = max(0.0, now - played_until)
                    heard.stall_ms += gap
                    heard.underrun_ms = max(heard.underrun_ms, gap)
                    if silent and len(loud := np.flatnonzero(np.abs(np.frombuffer(data, "<i2").astype(int)) > AUDIBLE)):
                        silent = False
                        heard.first_sound_ms = max(now, played_until) + 1000 * int(loud[0]) / RATE
                    length = 1000 * len(data) / 2 / RATE
                    heard.audio_ms += length
                    played_until = max(now, played_until) + length
                    heard.rtf = now / heard.audio_ms
                case Timing(fields):
                    heard.bars.append(Bar(fields["frame"], fields["frames"], fields["phases_ms"]))
                    heard.starved_ms += fields["starved_ms"]
                case Done(reason):
                    heard.reason = reason
    return heard


def spread(values: Sequence[float]) -> dict[str, float]:
    """p50, p90 and max."""
    if not values:
        return {"p50": 0.0, "p90": 0.0, "max": 0.0}
    p50, p90, most = np.percentile(values, [50, 90, 100])
    return {"p50": round(float(p50), 3), "p90": round(float(p90), 3), "max": round(float(most), 3)}


def summary(heard: Sequence[Heard], rss_gb: float) -> dict[str, Any]:
    """The keys of the JSON file, for one arm."""
    each: dict[str, list[float]] = {}
    for one in heard:
        for bar in one.bars:
            for phase, ms in bar.phases_ms.items():
                each.setdefault(phase, []).append(ms / bar.frames)
    worst = [one.underrun_ms for one in heard]
    return {
        "utterances": len(heard),
        "first_audio_ms": spread([one.first_audio_ms for one in heard]),
        "first_sound_ms": spread([one.first_sound_ms for one in heard]),
        "stall_ms": spread([one.stall_ms for one in heard]),
        "underrun_ms": spread(worst),
        **{f"c{limit}": sum(gap <= limit for gap in worst) / max(len(worst), 1) for limit in THRESHOLDS_MS},
        "rtf": spread([one.rtf for one in heard]),
        "rss_gb": round(rss_gb, 3),
        "phases_ms": {phase: spread(values) for phase, values in each.items()},
        "starved_ms": spread([one.starved_ms for one in heard]),
        "audio_s": round(sum(one.audio_ms for one in heard) / 1000, 3),
        "reasons": {reason: sum(one.reason == reason for one in heard) for reason in {one.reason for one in heard}},
    }


def table(heard: Sequence[Heard]) -> str:
    """Where a frame's time went: the mean over all frames, in shares of its 80 ms."""
    bars = [bar for one in heard for bar in one.bars]
    frames = sum(bar.frames for bar in bars)
    if not frames:
        return "no frame was made"
    phases = sorted({phase for bar in bars for phase in bar.phases_ms}, key=list(COLOURS).index)
    rows = [(phase, sum(bar.phases_ms.get(phase, 0.0) for bar in bars) / frames) for phase in phases]
    rows.append(("all", sum(ms for _, ms in rows)))
    lines = [f"{name:<12}{ms:>9.3f}{100 * ms / FRAME_MS:>9.1f} %" for name, ms in rows]
    return "\n".join([f"{'ms a frame':<12}{'mean':>9}{'of 80 ms':>11}", *lines])


@contextmanager
def own_server(voice: str | None, settings: Sequence[str]) -> Iterator[tuple[str, int]]:
    """A server of our own: its address, once it is ready, and its process."""
    command = [sys.executable, "-c", "from ouzel.cli import app; app()", "serve", "--port", "0"]
    command += ["--voice", voice] if voice else []
    command += [part for setting in settings for part in ("--set", setting)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"listening on (http://\S+)", line):
                break
        else:
            raise SystemExit("the server didn't start:\n" + "".join(said))
        _drain(process)
        while not _ready(found[1]):
            time.sleep(0.2)
            if process.poll() is not None:
                raise SystemExit("the server ended while it loaded")
        yield found[1], process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def _drain(process: subprocess.Popen[str]) -> None:
    """Keep its log from filling the pipe."""
    import threading

    assert process.stderr is not None
    threading.Thread(target=process.stderr.read, daemon=True).start()


def _ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/ready", timeout=5) as reply:
            return bool(reply.status == 200)
    except HTTPError:
        return False


def tree_rss_gb(root: int) -> float:
    """RssAnon of a process and all that descend from it."""
    total, left = 0, [root]
    while left:
        pid = left.pop()
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            left += [
                int(child)
                for task in Path(f"/proc/{pid}/task").iterdir()
                for child in (task / "children").read_text().split()
            ]
        except FileNotFoundError:
            continue
        total += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:")), 0)
    return total / (1 << 20)


async def measure(
    options: argparse.Namespace, url: str, arms: Mapping[str, Sequence[int] | None]
) -> dict[str, list[Heard]]:
    """All passes; within one, the arms take turns."""
    key = os.environ.get("OUZEL_API_KEY")

    async def one(chunks: Sequence[int] | None, number: int) -> Heard:
        return await listen(url, TEXTS[number % len(TEXTS)], chunks, timing=options.step_stats, key=key)

    heard: dict[str, list[Heard]] = {name: [] for name in arms}
    await one(None, 0)  # nobody measures the first request of a connection pool, a cache, a page of memory
    for turn in range(options.passes):
        for name, chunks in arms.items():
            together = (one(chunks, turn + number) for number in range(options.concurrency))
            heard[name] += await asyncio.gather(*together)
    return heard


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a running server; without, one is started")
    parser.add_argument("--pid", type=int, help="process of the running server, for its memory")
    parser.add_argument("--voice", help="voice of the server that is started")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="setting of that server")
    parser.add_argument("--step-stats", action="store_true", help="ask for the timing of each chunk")
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--passes", type=int, default=6)
    parser.add_argument("--arm", action="append", default=[], metavar="NAME=FRAMES,…", help="chunk schedule to compare")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    options.step_stats = options.step_stats or options.plot is not None
    arms: dict[str, Sequence[int] | None] = dict(map(_arm, options.arm)) if options.arm else {"profile": None}
    if options.url:
        run(options, options.url, options.pid, arms)
    else:
        with own_server(options.voice, options.set) as (url, pid):
            run(options, url, pid, arms)


def run(options: argparse.Namespace, url: str, pid: int | None, arms: Mapping[str, Sequence[int] | None]) -> None:
    heard = asyncio.run(measure(options, url, arms))
    rss_gb = tree_rss_gb(pid) if pid else 0.0
    results = {name: summary(one, rss_gb) for name, one in heard.items()}
    for name, result in results.items():
        print(f"{name}: {json.dumps(result, indent=2)}" if not options.json else f"{name}: {_line(result)}")
        if options.step_stats:
            print(table(heard[name]))
    if options.json:
        first = next(iter(results.values()))
        options.json.write_text(json.dumps((first if len(results) == 1 else {"arms": results}), indent=2) + "\n")
    if options.plot:
        write_plot(options.plot, [one[-1].bars for one in heard.values()])


def _line(result: Mapping[str, Any]) -> str:
    spreads = (
        f"{name} {result[name]['p50']:.3g}/{result[name]['p90']:.3g}/{result[name]['max']:.3g}" for name in _SHOWN
    )
    continuity = ", ".join(f"C{limit} {100 * result[f'c{limit}']:.0f} %" for limit in THRESHOLDS_MS)
    return f"p50/p90/max of {', '.join(spreads)}; {continuity}; {result['rss_gb']} GB"


_SHOWN = ("first_audio_ms", "stall_ms", "underrun_ms", "rtf")


def _arm(text: str) -> tuple[str, list[int]]:
    name, _, sizes = text.partition("=")
    try:
        return name, [int(size) for size in sizes.split(",")]
    except ValueError:
        raise SystemExit(f"--arm {text!r}: expected NAME=FRAMES,FRAMES,…") from None


if __name__ == "__main__":
    main()
