"""What four-bit weights are worth: tokens per second of decode and prefill, by how the weights are kept, and memory.

    python benchmarks/llm/decode_bench.py --work DIR [--model NAME_OR_FOLDER] [--passes 5] [--threads 2] [--json F]

`--model spark` makes random weights of the full Spark-1.7B geometry in the work folder; the other builds of a model are
made there too, unless they are there. Each engine is a process that loads its model once and is stopped while another
is measured; passes go to the engines in turns, so that all meet the same machine, and the best of each counts. The
weights that a token reads, times its rate, is the bandwidth that is reached; what memory allows is measured in the same
turns, by adding up 1 GiB with the same threads.

bf16 runs uncompiled and compiled, and the better one is told. Two figures less than 8 % apart are no result.

The server beside vLLM's multiprocess engine is measured by engine_bench.py.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import builds
from memory_use import resident, watched
from weight_arms import PROMPT_TOKENS, work

from ouzel.config import LlmConfig
from ouzel.stages.process import child_environment
from ouzel.tools.fidelity.bits import folder_size, gguf_size
from ouzel.tools.model_store import find_model

NO_RESULT = 0.08
GB = 1e9
EAGER, COMPILED = {"llm.eager": "true"}, {"llm.eager": "false"}
#: engine → build, and the ways in which it is run
ENGINES: dict[str, tuple[str, dict[str, dict[str, str]]]] = {
    "vllm-bf16": ("bf16", {"eager": EAGER, "compiled": COMPILED}),
    "vllm-w4a16": ("w4a16-g128", {"compiled": COMPILED}),
    "vllm-gptq": ("gptq-quick", {"compiled": COMPILED}),
    "vllm-awq": ("awq-quick", {"compiled": COMPILED}),
    "llama.cpp-q4_k_m": ("q4_k_m", {"": {}}),
}
#: what is compared, and the mark
MARKS = (
    ("decode_tps", "vllm-w4a16", "vllm-bf16", 2.3),
    ("decode_tps", "vllm-w4a16", "llama.cpp-q4_k_m", None),
    ("prefill_tps", "vllm-w4a16", "llama.cpp-q4_k_m", 1.15),
    ("decode_tps", "vllm-gptq", "vllm-bf16", None),
    ("decode_tps", "vllm-awq", "vllm-gptq", None),
)


@dataclass(slots=True)
class Arm:
    """An engine's process, and what was seen of it."""

    name: str
    way: str
    model: Path
    settings: dict[str, str]
    peak_bytes: int = 0
    anon_bytes: int = 0
    mapped_bytes: int = 0
    decode: list[float] = field(default_factory=list)
    prefill: list[float] = field(default_factory=list)
    _process: Any = None

    def start(self, threads: int, environ: dict[str, str]) -> None:
        engine = self.name.partition("-")[0]
        command = [sys.executable, __file__, "--worker", engine, "--model", str(self.model), "--work", "."]
        flags = [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        self._process = subprocess.Popen(
            [*command, "--threads", str(threads), *flags],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with watched(self._process.pid) as peak:
            self._line("ready")
        self.peak_bytes = peak.bytes
        self._pause(signal.SIGSTOP)

    def ask(self, what: object) -> dict[str, float]:
        self._pause(signal.SIGCONT)
        self._process.stdin.write(f"{json.dumps(what)}\n")
        self._process.stdin.flush()
        told: dict[str, float] = json.loads(self._line("{"))
        self._pause(signal.SIGSTOP)
        return told

    def measure(self, prompt: int, tokens: int) -> None:
        self.prefill.append(prompt / self.ask([prompt, 1])["first_s"])
        self.decode.append((tokens - 1) / self.ask([PROMPT_TOKENS, tokens])["others_s"])
        # What a step takes for a while isn't given back, so a session is as large as its largest moment.
        self.anon_bytes = max(self.anon_bytes, resident(self._process.pid))
        self.mapped_bytes = max(self.mapped_bytes, resident(self._process.pid, "RssFile"))

    def close(self) -> None:
        if self._process is None:
            return
        # Nothing is lost with an engine.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _line(self, beginning: str) -> str:
        for line in self._process.stdout:
            if line.startswith(beginning):  # engines print what they like between the answers
                return line
        raise SystemExit(f"{self.name} {self.way} ended with {self._process.wait()}")

    def _pause(self, number: int) -> None:
        os.killpg(self._process.pid, number)


def facts(arm: Arm, limit: float) -> dict[str, Any]:
    """An engine's figures."""
    read = gguf_size(arm.model) if arm.model.suffix == ".gguf" else folder_size(arm.model)
    decode = max(arm.decode)
    return {
        "way": arm.way,
        "decode_tps": round(decode, 3),
        "prefill_tps": round(max(arm.prefill), 2),
        "bytes_per_token": read.read_bytes,
        "bits_per_weight": round(read.bits_per_weight, 3),
        "rss_gb": round(arm.anon_bytes / GB, 3),
        "peak_load_gb": round(arm.peak_bytes / GB, 3),
        "mapped_gb": round(arm.mapped_bytes / GB, 3),
        "gb_per_s": round(decode * read.read_bytes / GB, 2),
        "share_of_memory": round(decode * read.read_bytes / limit, 3),
        "decode_median": round(statistics.median(arm.decode), 3),
        "prefill_median": round(statistics.median(arm.prefill), 2),
    }


def compare(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Ratios of what was measured; `reached` where there is a mark."""
    said = []
    for what, ours, theirs, mark in MARKS:
        if ours in found and theirs in found:
            ratio = found[ours][what] / found[theirs][what]
            result = {"what": what, "of": ours, "to": theirs, "ratio": round(ratio, 3)}
            result["result"] = abs(ratio - 1) >= NO_RESULT
            said.append(result | ({"mark": mark, "reached": ratio >= mark} if mark else {}))
    return said


def arms_of(options: argparse.Namespace, source: Path) -> list[Arm]:
    """Every engine that was asked for, in each of its ways, with its build made."""
    said = dict(setting.split("=", 1) for setting in options.set)
    common = {
        "llm.dtype": "bfloat16",
        "llm.threads": str(options.threads),
        "llm.max_model_len": "1024",
        "llm.max_num_seqs": "2",
        # a prompt is one step
        "llm.prefill_tokens": str(options.prompt),
    }
    arms = []
    for name in options.engines:
        build, ways = ENGINES[name]
        model = source if build == "bf16" else builds.make(build, source, options.work / "builds" / source.name)
        ways = {way: settings for way, settings in ways.items() if way != "eager" or options.eager}
        arms += [Arm(name, way, model, common | settings | said) for way, settings in ways.items()]
    return arms


def environment(engine: str, options: argparse.Namespace) -> dict[str, str]:
    """A language stage's; llama.cpp's threads wait as it has them wait."""
    if engine.startswith("vllm"):
        environ = child_environment(os.environ, options.threads, options.spin_ms)
        return environ | {"VLLM_LOGGING_LEVEL": "ERROR"}
    environ = dict(os.environ)
    environ.pop("OMP_WAIT_POLICY", None)
    return environ | {"OMP_NUM_THREADS": str(options.threads)}


def measure(arms: Sequence[Arm], options: argparse.Namespace) -> tuple[dict[str, Any], float]:
    """Each engine's better way, and what memory allows in bytes a second."""
    limit = Arm("memory", "", options.work, {})
    rates = []
    with ExitStack() as stack:
        for arm in (limit, *arms):
            stack.callback(arm.close)
            arm.start(options.threads, environment(arm.name, options))
            print(f"{arm.name} {arm.way}: peak {arm.peak_bytes / GB:.2f} GB", file=sys.stderr)
        for turn in range(options.passes + 1):
            rates.append(limit.ask(0)["bytes_per_s"])
            for arm in arms:
                arm.measure(options.prompt, options.tokens)
                if turn == 0:  # it warms up
                    arm.decode, arm.prefill = [], []
                    continue
                line = f"{arm.name:<18}{arm.way:<10}{arm.decode[-1]:8.2f} decode{arm.prefill[-1]:9.1f} prefill"
                print(line, file=sys.stderr)
    found: dict[str, Any] = {}
    for arm in arms:
        figures = facts(arm, max(rates))
        if arm.name not in found or figures["decode_tps"] > found[arm.name]["decode_tps"]:
            found[arm.name] = figures | {"other_ways": found.get(arm.name, {}).get("other_ways", {})}
        found[arm.name]["other_ways"][arm.way] = {name: figures[name] for name in ("decode_tps", "prefill_tps")}
    return found, max(rates)


def find_source(options: argparse.Namespace) -> Path:
    if options.model != "spark":
        return find_model(options.model)
    return builds.whole(options.work / "spark-1.7b", lambda target: builds.run_ouzel("make-checkpoint", target))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="spark, a pulled model or a checkpoint folder (%(default)s)")
    parser.add_argument("--work", type=Path, required=True, help="where builds are made and kept")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument(
        "--no-eager", dest="eager", action="store_false", help="leave out bf16's uncompiled way, for its memory"
    )
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--spin-ms", type=int, default=LlmConfig().spin_ms, help="how long vLLM's threads wait awake (%(default)s)"
    )
    parser.add_argument("--prompt", type=int, default=512, help="tokens of a prefill, which is one step")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of a decode")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the stage")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        settings = dict(setting.split("=", 1) for setting in options.set)
        work(options.worker, Path(options.model), settings, options.threads)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # no engine is left behind
    options.work.mkdir(parents=True, exist_ok=True)
    source = find_source(options)
    found, limit = measure(arms_of(options, source), options)
    result = {
        **found,
        "run": {
            "model": source.name,
            "threads": options.threads,
            "spin_ms": options.spin_ms,
            "prompt": options.prompt,
            "tokens": options.tokens,
            "passes": options.passes,
            "memory_gb_per_s": round(limit / GB, 2),
            "comparisons": compare(found),
        },
    }
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
