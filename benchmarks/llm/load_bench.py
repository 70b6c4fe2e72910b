"""What loading four-bit weights takes beside them: peak and resident memory of a language stage, and its decode rate.

    ouzel make-checkpoint FOLDER
    python benchmarks/llm/load_bench.py FOLDER [--group 128] [--threads 2] [--eager] [--json F]

FOLDER holds weights in floating point, which the stage puts into four bits while it loads them, or one that
`ouzel quantize` wrote. Exits with 1 where the peak of anonymous memory before the first token is more than 1.3 times
what is resident after the last.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from memory_use import resident, watched

from ouzel.config import LlmConfig
from ouzel.stages.process import child_environment

MOST = 1.3
GB = 1e9
KV_BYTES = 256 << 20
LONGEST = 2048


def work(folder: Path, settings: dict[str, str], prompt: int, tokens: int) -> None:
    """Be the stage: load, then read a prompt and write, and say what each took."""
    from weight_arms import vllm

    began = time.perf_counter()
    loaded = vllm(folder, settings, 0)
    print(json.dumps({"load_s": time.perf_counter() - began}), flush=True)
    sys.stdin.readline()
    begin = time.perf_counter()
    first, _ = loaded.write([place % 500 for place in range(prompt)], 1)
    told = {"prefill_tps": prompt / (first - begin)}
    first, last = loaded.write([1] * 16, tokens)
    print(json.dumps(told | {"decode_tps": (tokens - 1) / (last - first)}), flush=True)
    sys.stdin.readline()


def measure(folder: Path, settings: dict[str, str], arguments: argparse.Namespace) -> dict[str, Any]:
    """One stage's figures."""
    command = [sys.executable, __file__, str(folder), "--worker", json.dumps(settings)]
    environ = child_environment(os.environ, arguments.threads, LlmConfig().spin_ms)
    with subprocess.Popen(
        [*command, "--prompt", str(arguments.prompt), "--tokens", str(arguments.tokens)],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        with watched(process.pid) as peak:
            figures = json.loads(_answer(process))
        loaded = resident(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        figures |= json.loads(_answer(process))
        figures |= {"peak_gb": peak.bytes / GB, "loaded_gb": loaded / GB, "rss_gb": resident(process.pid) / GB}
        process.stdin.close()
    return {name: round(value, 3) for name, value in figures.items()}


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):  # an engine prints what it likes between the answers
            return line
    raise SystemExit(f"the stage ended with {process.wait()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--group", type=int, default=LlmConfig().quantization_group)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        work(arguments.folder, arguments.worker, arguments.prompt, arguments.tokens)
        return 0
    settings = {
        "llm.quantization": "ouzel_w4a16",
        "llm.quantization_group": str(arguments.group),
        "llm.dtype": "bfloat16",
        "llm.eager": str(arguments.eager).lower(),
        "llm.max_model_len": str(LONGEST),
        "llm.prefill_tokens": str(arguments.prompt),
        "llm.kv_cache_bytes": str(KV_BYTES),
    }
    figures = measure(arguments.folder, settings, arguments)
    figures["peak_to_resident"] = round(figures["peak_gb"] / figures["rss_gb"], 3)
    print(json.dumps(figures, indent=1))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return int(figures["peak_to_resident"] > MOST)


if __name__ == "__main__":
    raise SystemExit(main())
