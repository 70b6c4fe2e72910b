"""Whether vLLM's fused norms (`llm.cpu_ir_ops`) pay: each alone, and a whole decode step with them and without.

    python benchmarks/llm/ir_ops_bench.py FOLDER [--profile P] [--threads 2] [--passes 5] [--tokens 64] [--json F]

Both arms are loaded and compiled in processes of their own, and write the same tokens in turns, one arm at a time.
`alone` compares a kernel with what the compiler makes of vLLM's definition, on one row of the model's width.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ARMS = {"compiled": "false", "fused norms": "true"}
PROMPT = tuple(range(300, 316))


class Arm:
    """An engine in its own process, which writes when it is told to."""

    def __init__(self, options: argparse.Namespace, flag: str) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, __file__, str(options.folder), "--worker", flag, "--profile", options.profile),
                *("--tokens", str(options.tokens), "--threads", str(options.threads)),
            ],
            env=os.environ | {"OMP_NUM_THREADS": str(options.threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.start = self._answer()

    def write(self) -> dict[str, Any]:
        """Seconds of each token but the first, and the tokens."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # whatever else vLLM has to say
                return json.loads(line)
        raise SystemExit(f"an arm ended with {self._process.wait()}")


def work(options: argparse.Namespace) -> None:
    """Be one arm."""
    from ouzel.config import load_config
    from ouzel.engines.llm import build
    from ouzel.stages.language import LanguageRequest, LanguageSampling
    from ouzel.stats.timeline import InitTimeline

    flags = {"llm.cpu_ir_ops": options.worker, "llm.threads": str(options.threads)}
    core = build(options.folder, load_config((options.profile,), flags=flags).config, InitTimeline("llm"))
    print(json.dumps(alone(options.folder) if options.worker == "true" else {}), flush=True)
    sampling = LanguageSampling(temperature=0, max_tokens=options.tokens, ignore_eos=True)
    for epoch, _ in enumerate(sys.stdin, 1):
        core.add(LanguageRequest(slot=0, epoch=epoch, prompt_ids=PROMPT, sampling=sampling))
        times, text = [], ""
        while core.has_work:
            begin = time.perf_counter()
            text += "".join(delta.content for delta in core.step())
            times.append(time.perf_counter() - begin)
        print(json.dumps({"steps": times[1:], "text": text}), flush=True)
    core.close()


def alone(folder: Path) -> dict[str, float]:
    """Microseconds of a call, by op and by what runs it."""
    import torch
    from vllm import ir

    from ouzel.engines.llm.arguments import IR_PROVIDER

    hidden = json.loads((folder / "config.json").read_text())["hidden_size"]
    x, residual, weight = (torch.randn(size, dtype=torch.bfloat16) for size in ((1, hidden), (1, hidden), hidden))
    found = {}
    for op, tensors in ((ir.ops.rms_norm, (x, weight)), (ir.ops.fused_add_rms_norm, (x, residual, weight))):
        definition = op.impls["native"].impl_fn
        for name, how in (("compiled", torch.compile(definition)), ("kernel", op.impls[IR_PROVIDER].impl_fn)):
            found[f"{op.name} {name}"] = round(microseconds(lambda how=how, tensors=tensors: how(*tensors, 1e-6)), 2)
    return found


def microseconds(call: Callable[[], object], repeats: int = 2000) -> float:
    for _ in range(20):
        call()
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begin) / repeats * 1e6


def measure(options: argparse.Namespace) -> dict[str, Any]:
    arms = {name: Arm(options, flag) for name, flag in ARMS.items()}
    written: dict[str, list[dict[str, Any]]] = {name: [] for name in ARMS}
    for turn in range(options.passes + 1):
        for name, arm in arms.items():
            said = arm.write()
            if turn:  # the first warms up
                written[name].append(said)
                print(f"{name:<12}{1 / statistics.mean(said['steps']):8.2f} tok/s", file=sys.stderr)
    for arm in arms.values():
        arm.close()
    rates = {name: [1 / statistics.mean(said["steps"]) for said in runs] for name, runs in written.items()}
    return {
        "model": options.folder.name,
        "threads": options.threads,
        "tokens": options.tokens,
        "alone, µs": arms["fused norms"].start,
        "tok/s": {name: round(statistics.median(runs), 3) for name, runs in rates.items()},
        "passes": {name: [round(rate, 3) for rate in runs] for name, runs in rates.items()},
        "step ms, median": {
            name: round(1e3 * statistics.median(step for said in runs for step in said["steps"]), 3)
            for name, runs in written.items()
        },
        "same text": len({said["text"] for runs in written.values() for said in runs}) == 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--profile", default="spark2_5")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", choices=ARMS.values(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return
    result = measure(options)
    print(json.dumps(result, indent=1, ensure_ascii=False))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
