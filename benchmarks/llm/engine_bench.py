"""Tokens per second of the language stage, beside vLLM's own multiprocess engine and llama.cpp on the same model.

    python benchmarks/llm/engine_bench.py [--model NAME_OR_FOLDER] [--gguf FILE] [--passes 5] [--json F]

Each arm is a process that loads the model once; texts of --tokens tokens go to the arms in turns, so that all of them
meet the same machine. `stage` is the stage's engine core, stepped as its loop steps it; `server` is `ouzel serve` as a
streaming client sees it; `vllm` is what `vllm.LLM` makes by default: an engine core and a worker in processes of their
own. `llama.cpp` takes part where llama-cpp-python is installed and --gguf names a file for it.

`added` is what gateway and stage add to a token, by the server's step statistics: the client's interval less vLLM's own
work in a step. Exits with 1 where the stage isn't 1.2 times as fast as `vllm`, or more than 1 ms is added.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from ouzel.config import LlmConfig
from ouzel.stages.process import child_environment

LEAST_RATIO, MOST_ADDED_MS = 1.2, 1.0
PROMPT = "The river keeps its own time, and whoever lives beside it learns to keep it too. One morning in spring,"
PORT = 8091

#: Writes so many tokens; gives the moments of the first and the last.
Arm = Callable[[int], tuple[float, float]]


def moments(steps: Iterable[bool]) -> tuple[float, float]:
    """When the first and the last step was done that wrote something."""
    done = [time.perf_counter() for wrote in steps if wrote]
    return done[0], done[-1]


def stage_arm(model: Path, settings: dict[str, str], stack: ExitStack) -> Arm:
    from ouzel.config import load_config
    from ouzel.engines.llm import build
    from ouzel.stages.language import LanguageRequest, LanguageSampling
    from ouzel.stats.timeline import InitTimeline

    core = build(model, load_config(("llama",), flags=settings).config, InitTimeline("llm"))
    stack.callback(core.close)

    def write(tokens: int) -> tuple[float, float]:
        sampling = LanguageSampling(temperature=0, max_tokens=tokens, ignore_eos=True)
        core.add(LanguageRequest(slot=0, epoch=1, prompt=PROMPT, sampling=sampling))
        return moments(bool(core.step()) for _ in iter(lambda: core.has_work, False))

    return write


def vllm_arm(model: Path, settings: dict[str, str], stack: ExitStack) -> Arm:
    from ouzel.config import load_config

    let_vllm_start()
    from vllm import LLM, SamplingParams

    from ouzel.engines.llm.load import register

    register(json.loads((model / "config.json").read_text())["architectures"][0])
    llm = load_config(("llama",), flags=settings).config.llm
    own = {"dtype": llm.dtype, "max_num_seqs": llm.max_num_seqs, "enforce_eager": llm.eager}
    engine = LLM(model=str(model), max_model_len=2048, **own).llm_engine

    def write(tokens: int) -> tuple[float, float]:
        sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
        engine.add_request(str(time.perf_counter_ns()), PROMPT, sampling)
        return moments(bool(engine.step()) for _ in iter(engine.has_unfinished_requests, False))

    return write


def let_vllm_start() -> None:
    """At all where torchvision is broken, and soon; it runs the same."""
    from ouzel.engines.llm.compile_cache import mend_compile_cache
    from ouzel.engines.llm.unused import hide_unused

    hide_unused()
    mend_compile_cache()


def llama_cpp_arm(model: Path, settings: dict[str, str], stack: ExitStack) -> Arm:
    from llama_cpp import Llama

    threads = int(os.environ["OMP_NUM_THREADS"])
    llama = Llama(str(model), n_ctx=2048, n_threads=threads, n_threads_batch=threads, verbose=False)

    def write(tokens: int) -> tuple[float, float]:
        llama.reset()
        # It knows no end of its own, so its steps are counted.
        written = llama.generate(llama.tokenize(PROMPT.encode()), temp=0.0)
        return moments(True for _, _ in zip(range(tokens), written, strict=False))

    return write


def server_arm(model: Path, settings: dict[str, str], stack: ExitStack) -> Arm:
    import httpx

    # Its statistics are written when it has stopped in order.
    settings = {**settings, "orchestrator.stop_grace_s": "30"}
    flags = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-c", "from ouzel.cli import app; app()", "serve", "--llm", str(model), *flags]
    server = subprocess.Popen([*command, "--port", str(PORT), "--log-level", "WARNING"])
    stack.callback(server.wait)
    stack.callback(server.terminate)
    client = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{PORT}", timeout=600))
    body = {"prompt": PROMPT, "temperature": 0, "ignore_eos": True, "stream": True}

    def write(tokens: int) -> tuple[float, float]:
        with client.stream("POST", "/v1/completions", json={**body, "max_tokens": tokens}) as answer:
            answer.raise_for_status()
            pieces = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: {"))
            return moments(any(choice["text"] for choice in piece["choices"]) for piece in pieces)

    while server.poll() is None:
        time.sleep(0.5)
        try:
            reply = client.post("/v1/completions", json={"prompt": "The", "max_tokens": 1})
        except httpx.ConnectError:
            continue
        if reply.status_code != 503:  # it is still loading
            reply.raise_for_status()
            return write
    raise SystemExit(f"the server ended with {server.returncode}")


ARMS = {"stage": stage_arm, "server": server_arm, "vllm": vllm_arm, "llama.cpp": llama_cpp_arm}


def work(name: str, model: Path, settings: dict[str, str]) -> None:
    """Be one arm: a number of tokens a line in, the seconds of its decoding a line out."""
    with ExitStack() as stack:
        write = ARMS[name](model, settings, stack)
        write(8)
        print("ready", flush=True)
        for line in sys.stdin:
            first, last = write(int(line))
            print(json.dumps(last - first), flush=True)


class Worker:
    """An arm's process."""

    def __init__(self, name: str, model: Path, settings: list[str], threads: int, stats: str) -> None:
        self._name = name
        environ = os.environ | {"OMP_NUM_THREADS": str(threads), "VLLM_CPU_KVCACHE_SPACE": "1"}
        environ |= {"VLLM_LOGGING_LEVEL": "ERROR"} | ({"OUZEL_STEP_STATS": stats} if name == "server" else {})
        if name == "stage":
            environ = child_environment(environ, threads, LlmConfig().spin_ms)
        flags = [word for setting in settings for word in ("--set", setting)]
        command = [sys.executable, __file__, "--worker", name, "--model", str(model), *flags]
        self._process = subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._answer("ready")
        self._pause()

    def decode(self, tokens: int) -> float:
        """Tokens per second after the first."""
        self._signal(signal.SIGCONT)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{tokens}\n")
        self._process.stdin.flush()
        seconds = float(self._answer(""))
        self._pause()
        return (tokens - 1) / seconds

    def close(self) -> None:
        self._signal(signal.SIGCONT)
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:  # one that was still loading
            os.killpg(self._process.pid, signal.SIGKILL)

    def _answer(self, expected: str) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # Engines print what they like between the answers.
            if line.startswith(expected) and (expected or line[:1].isdigit()):
                return line
        raise SystemExit(f"{self._name} ended with {self._process.wait()}")

    def _pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def _signal(self, number: int) -> None:
        # An idle vLLM waits by spinning, on the others' cores. An idle server sleeps, and watches its stages' clock.
        if self._name == "vllm":
            os.killpg(self._process.pid, number)


def measure(workers: dict[str, Worker], passes: int, tokens: int) -> dict[str, list[float]]:
    seen: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(passes):
        for name, worker in workers.items():
            seen[name].append(worker.decode(tokens))
            print(f"{name:<10}{seen[name][-1]:8.1f} tok/s", file=sys.stderr)
    return seen


def spread(rates: list[float]) -> dict[str, float]:
    found = {"median": statistics.median(rates), "min": min(rates), "max": max(rates)}
    return {name: round(rate, 2) for name, rate in found.items()}


def added(rate: float, folder: str) -> dict[str, float]:
    """The parts of a token's milliseconds in the server, each a mean over all tokens as the rate is."""
    from ouzel.stats.dump import load
    from ouzel.stats.phases import Phase
    from ouzel.stats.snapshot import Series

    snapshots = {snapshot.process: snapshot for snapshot in load(folder)}

    def mean(process: str, phase: Phase) -> float:
        found = snapshots[process]
        series = found.inside.get(phase) or found.beside.get(phase) or Series()
        return series.total_ns / max(series.count, 1) / 1e6

    interval = 1000 / rate
    engine = sum(mean("llm", phase) for phase in (Phase.SCHEDULE, Phase.FORWARD, Phase.UPDATE, Phase.DETOKENIZE))
    emit, other = (
        mean("llm", Phase.EMIT),
        snapshots["llm"].inside[Phase.OTHER].total_ns / snapshots["llm"].step.count / 1e6,
    )
    return {
        "interval": interval,
        "engine": engine,
        "emit": emit,
        "other": other,
        "between steps": interval - engine - emit - other,
        "added": interval - engine,
        # in the server's process, while the stage is at the next token
        "hop": mean("language", Phase.HOP),
        "dispatch": mean("language", Phase.DISPATCH),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="a pulled model or a checkpoint folder (%(default)s)")
    parser.add_argument("--gguf", type=Path, help="the same model for llama.cpp")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the stage")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", choices=ARMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    settings = [f"llm.threads={options.threads}", *options.set]
    if options.worker:
        work(options.worker, Path(options.model), dict(setting.split("=", 1) for setting in options.set))
        return
    from ouzel.tools.model_store import find_model

    models = dict.fromkeys(("stage", "server", "vllm"), find_model(options.model))
    models |= {"llama.cpp": options.gguf} if options.gguf else {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # no worker is left behind
    with tempfile.TemporaryDirectory(prefix="engine-bench-") as stats:
        with ExitStack() as stack:
            workers = {}
            for name, model in models.items():
                workers[name] = Worker(name, model, settings, options.threads, stats)
                stack.callback(workers[name].close)
            rates = measure(workers, options.passes, options.tokens)
        parts = added(statistics.harmonic_mean(rates["server"]), stats)
    ratio = statistics.median(rates["stage"]) / statistics.median(rates["vllm"])
    result = {
        "threads": options.threads,
        "tokens": options.tokens,
        "passes": options.passes,
        "tokens per second": {name: spread(arm) for name, arm in rates.items()},
        "stage of vllm": round(ratio, 3),
        "ms of a token": {name: round(ms, 3) for name, ms in parts.items()},
    }
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(ratio < LEAST_RATIO or parts["added"] > MOST_ADDED_MS)


if __name__ == "__mp_main__":  # vLLM's own processes import this file first
    let_vllm_start()
if __name__ == "__main__":
    main()
