"""The figures of docs/fidelity.md for a Spark checkpoint, one process after the other.

    python tests/engines/llm/spark/figures.py FOLDER [--llama PYTHON] [--traits] [--threads 2]

`--llama` names the Python of an environment with llama-cpp-python 0.3.36; the checkpoint is written for it as a GGUF of
four bytes a weight, into the folder for temporary files. Nothing is held to a bar here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tiny_spark
import torch
from compare_spark import MADE, TOP, Distance, compare, run
from spark_reference import Traits

from ouzel.tools.spark_gguf import write_gguf

CONTEXT = 2560
TRAITS = ("window", "partial_rotary", "gate", "layer_pattern")


def run_llama(python: str, folder: Path, prompts: Mapping[str, list[int]], threads: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="spark-") as place:
        file = write_gguf(folder, Path(place) / "spark.gguf")
        wish = {"file": str(file), "prompts": prompts, "context": CONTEXT, "tokens": MADE, "top": TOP}
        done = subprocess.run(
            [python, str(Path(__file__).with_name("run_llama.py"))],
            input=json.dumps(wish | {"threads": threads}),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


def say(what: str, found: Distance) -> None:
    sys.stdout.write(f"{what}: {found.equal} of {MADE} tokens, {found.difference:.2g}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--llama", metavar="PYTHON")
    parser.add_argument("--traits", action="store_true", help="switch each trait off in the reference, too")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    prompts = tiny_spark.scenarios(tiny_spark.config(options.folder)["vocab_size"])
    wish = {"folder": str(options.folder), "prompts": prompts, "eager": True, "context": CONTEXT}
    wish |= {"prefill_tokens": 1024, "kv_cache_bytes": 640 << 20}
    made = {"vLLM": run([wish], threads=options.threads)[0]["made"]}
    if options.llama:
        made["llama.cpp"] = run_llama(options.llama, options.folder, prompts, options.threads)
    for engine, answers in made.items():
        for scenario, prompt in prompts.items():
            found = compare(options.folder, answers[scenario], prompt)
            say(f"{engine}, {scenario}", found)
    for trait in TRAITS if options.traits else ():
        scenario = "tool call"
        found = compare(options.folder, made["vLLM"][scenario], prompts[scenario], Traits(**{trait: False}))
        say(f"{scenario}, without {trait}", found)


if __name__ == "__main__":
    main()
