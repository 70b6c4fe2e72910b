"""How far an engine's answers lie from the reference's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import tiny_spark
import torch
from spark_reference import ALL, Traits, logprobs

#: largest difference of a log-probability in fp32, from the real checkpoint
BAR = 2.2e-5
#: tokens that each prompt gets, and log-probabilities kept at each
MADE, TOP = 32, 20


class Distance(NamedTuple):
    """Greedy tokens that are the reference's own choice, and the largest difference of a top log-probability."""

    equal: int
    difference: float


def run(wishes: list[dict[str, Any]], *, threads: int = 1) -> list[dict[str, Any]]:
    """What vLLM makes of each wish (see run_spark.py), in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("run_spark.py"))],
        input=json.dumps([{"tokens": MADE, "top": TOP} | wish for wish in wishes]),
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def compare(folder: Path, made: dict[str, Any], prompt: list[int], traits: Traits = ALL) -> Distance:
    """The answer to one prompt against the reference, which reads the engine's own tokens."""
    ids = made["ids"]
    expected = logprobs(tiny_spark.config(folder), tiny_spark.Stored(folder), prompt + ids[:-1], traits, last=len(ids))
    differences = [
        abs(expected[step, int(id_)].item() - logprob)
        for step, found in enumerate(made["logprobs"])
        for id_, logprob in found.items()
    ]
    assert len(ids) == MADE
    assert len(differences) >= MADE * TOP
    return Distance(int((expected.argmax(-1) == torch.tensor(ids)).sum()), max(differences))
