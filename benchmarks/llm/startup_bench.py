"""How long the language stage takes from nothing to its first token: cold, warm and uncompiled.

    python benchmarks/llm/startup_bench.py [--model NAME_OR_FOLDER] [--passes 3] [--json F]

Each start is a process of its own, with a folder for what it compiles. `cold` begins with an empty one; `warm` finds
what a cold start left; `fixed` and `unfixed` are with and without the mended loader (`llm.compile_cache_fix`), each
with a folder of its own; `eager` compiles nothing. Warm and eager starts take turns. Exits with 1 where the warm start
takes more than a fifth of the same start without the fix.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from ouzel.stages.process import child_environment

MOST_OF_UNFIXED = 0.2


class Arm(NamedTuple):
    """A way to start."""

    cache: str
    settings: tuple[str, ...]


FIXED, UNFIXED = ("llm.compile_cache_fix=true",), ("llm.compile_cache_fix=false",)
COLD = {"cold fixed": Arm("fixed", FIXED), "cold unfixed": Arm("unfixed", UNFIXED)}
WARM = {
    "warm fixed": Arm("fixed", FIXED),
    "warm unfixed": Arm("unfixed", UNFIXED),
    "eager": Arm("eager", ("llm.eager=true",)),
}


def work(folder: Path, settings: list[str]) -> None:
    """Be one start: write one token, and say how long each phase took."""
    from ouzel.config import load_config
    from ouzel.engines.llm import build
    from ouzel.stages.language import LanguageRequest, LanguageSampling
    from ouzel.stats.timeline import InitTimeline

    timeline = InitTimeline("llm")
    flags = dict(setting.split("=", 1) for setting in settings)
    core = build(folder, load_config(("llama",), flags=flags).config, timeline)
    with timeline.phase("first token"):
        core.add(LanguageRequest(slot=0, epoch=1, prompt="The", sampling=LanguageSampling(max_tokens=1)))
        while core.has_work:
            core.step()
    print(json.dumps({span.name: span.duration_ns / 1e9 for span in timeline.spans}), flush=True)
    core.close()


def start(arm: Arm, folder: Path, settings: list[str], caches: Path, threads: int) -> dict[str, float]:
    """The seconds of one start, all of it and by phase."""
    cache = caches / arm.cache
    environ = child_environment(os.environ, threads) | {
        "VLLM_CACHE_ROOT": str(cache / "vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
    }
    flags = [word for setting in (*settings, *arm.settings) for word in ("--set", setting)]
    begin = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, __file__, "--worker", "--model", str(folder), *flags],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):  # whatever else vLLM has to say
                return {"all": time.perf_counter() - begin, **json.loads(line)}
    raise SystemExit(f"a start ended with {process.returncode}")


def measure(folder: Path, settings: list[str], passes: int, threads: int) -> dict[str, Any]:
    seen: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="startup-bench-") as name:
        for turn in range(passes):
            for arm, how in (COLD | WARM if turn == 0 else WARM).items():
                seen.setdefault(arm, []).append(start(how, folder, settings, Path(name), threads))
                print(f"{arm:<14}{seen[arm][-1]['all']:8.1f} s", file=sys.stderr)
    return {
        "threads": threads,
        "passes": passes,
        "starts": {
            arm: {phase: round(statistics.median(run[phase] for run in runs), 3) for phase in runs[0]}
            for arm, runs in seen.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="a pulled model or a checkpoint folder (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of every start")
    options = parser.parse_args()
    if options.worker:
        work(Path(options.model), options.set)
        return
    from ouzel.tools.model_store import find_model

    result = measure(find_model(options.model), options.set, options.passes, options.threads)
    starts = result["starts"]
    result["warm of unfixed"] = round(starts["warm fixed"]["all"] / starts["warm unfixed"]["all"], 3)
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(result["warm of unfixed"] > MOST_OF_UNFIXED)


if __name__ == "__main__":
    main()
