"""Exports on vLLM's own kernels, without anything of ours but Spark's model, against their bf16 expansions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_four_bit_export import export
from tiny_decoders import config, write_tiny_llama, write_tiny_spark

from ouzel.tools.expand import expand

pytestmark = [pytest.mark.llm, pytest.mark.timeout(240)]
IDS = list(range(5, 85))
LINEARS = {
    "llama": ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"),
    "spark": ("self_attn.q_k_v_proj", "self_attn.out_proj", "mlp.gate_up_proj", "mlp.down_proj"),
}


def served(folders: list[Path], *, plugins: str | None) -> list[dict[str, Any]]:
    environ = dict(os.environ) | {"OMP_NUM_THREADS": "1"}
    if plugins is not None:
        environ["VLLM_PLUGINS"] = plugins
    wish = {
        "folders": [str(folder) for folder in folders],
        "architectures": [] if plugins is None else config(folders[0])["architectures"],
        "ids": IDS,
    }
    command = [sys.executable, str(Path(__file__).with_name("run_exports.py"))]
    done = subprocess.run(
        command, input=json.dumps(wish), capture_output=True, text=True, check=False, timeout=220, env=environ
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("kind", LINEARS)
def test_vllm_computes_what_the_codes_are_worth(tmp_path: Path, kind: str) -> None:
    source = write_tiny_llama(tmp_path / kind) if kind == "llama" else write_tiny_spark(tmp_path / kind)
    folders = []
    for method in ("gptq", "awq"):
        folders += [export(method, source, tmp_path / method, group=32), tmp_path / f"{method} expanded"]
        expand(tmp_path / method, tmp_path / f"{method} expanded")
    # An empty list of plugins: vLLM as it is installed.
    gptq, gptq_expanded, awq, awq_expanded, whole = served([*folders, source], plugins="" if kind == "llama" else None)
    layers = 2 if kind == "llama" else 4
    names = {f"model.layers.{layer}.{name}" for layer in range(layers) for name in LINEARS[kind]} | {"lm_head"}
    for packed, expanded in ((gptq, gptq_expanded), (awq, awq_expanded)):
        assert packed["kernels"] == dict.fromkeys(names, "CPUWNA16LinearKernel")
        assert expanded["kernels"] == {}
        assert apart(packed, expanded) < 0.25 * apart(packed, whole)


def apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The mean distance of log-probabilities."""
    pairs = zip(one["logprobs"], other["logprobs"], strict=True)
    return sum(abs(first - second) for first, second in pairs) / len(IDS)
