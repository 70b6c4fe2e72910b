"""The bench's own arithmetic, and its whole run in small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2] / "benchmarks/llm"
sys.path.insert(0, str(HERE))

from builds import whole  # noqa: E402  # found through the line above
from decode_bench import Arm, compare, facts  # noqa: E402
from memory_use import resident, watched  # noqa: E402

from ouzel.tools.make_checkpoint import TINY, make_checkpoint  # noqa: E402

MB = 1 << 20
#: takes 64 MB for a moment and keeps 16
HOLDING = """
import time
most = bytearray(64 << 20)
print("most", flush=True)
time.sleep(0.5)
del most
least = bytearray(16 << 20)
print("least", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holding() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        yield process
        process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_peak_of_a_session_is_seen_and_what_it_keeps(holding: subprocess.Popen[str]) -> None:
    with watched(holding.pid) as peak:
        assert [line(holding), line(holding)] == ["most", "least"]
    kept = resident(holding.pid)
    assert 64 * MB < peak.bytes < 128 * MB
    assert 16 * MB < kept < peak.bytes - 40 * MB


def test_a_session_that_has_ended_holds_nothing() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    done.wait()
    assert resident(done.pid) == 0


def test_children_count() -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLDING!r}])"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert line(parent) == "most"
        assert resident(parent.pid) > 64 * MB
    finally:
        os.killpg(parent.pid, 9)
        parent.communicate()


def test_the_best_pass_counts_and_bandwidth_is_what_the_weights_take(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "tiny", TINY)
    arm = Arm("vllm-bf16", "eager", folder, {}, peak_bytes=3 * 10**9, anon_bytes=2 * 10**9)
    arm.decode, arm.prefill = [10.0, 12.0, 11.0], [100.0, 90.0, 80.0]
    found = facts(arm, 1e9)
    assert (found["decode_tps"], found["decode_median"], found["prefill_tps"]) == (12, 11, 100)
    # all but the norms, two bytes each
    assert found["bytes_per_token"] == 2 * 256 * (1024 + 8 * (512 + 2 * 128 + 8 + 512 + 3 * 640))
    assert found["share_of_memory"] == round(12 * found["bytes_per_token"] / 1e9, 3)
    assert (found["rss_gb"], found["peak_load_gb"]) == (2, 3)


def test_less_than_8_percent_is_no_result_and_marks_are_checked() -> None:
    def figures(decode: float, prefill: float) -> dict[str, float]:
        return {"decode_tps": decode, "prefill_tps": prefill}

    found = {
        "vllm-bf16": figures(5, 130),
        "vllm-w4a16": figures(12, 110),
        "llama.cpp-q4_k_m": figures(12.5, 96),
    }
    said = {(one["what"], one["to"]): one for one in compare(found)}
    assert said["decode_tps", "vllm-bf16"]["reached"] and said["decode_tps", "vllm-bf16"]["ratio"] == 2.4
    assert not said["decode_tps", "llama.cpp-q4_k_m"]["result"]
    assert not said["prefill_tps", "llama.cpp-q4_k_m"]["reached"] and said["prefill_tps", "llama.cpp-q4_k_m"]["result"]


def test_a_build_that_was_interrupted_is_made_again(tmp_path: Path) -> None:
    def torn(target: Path) -> None:
        target.mkdir()
        (target / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whole(tmp_path / "a", torn)
    assert not (tmp_path / "a").exists()
    assert list(whole(tmp_path / "a", Path.mkdir).iterdir()) == []
    assert whole(tmp_path / "a", torn) == tmp_path / "a"


@pytest.mark.llm
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_whole_bench_on_a_tiny_spark(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "tiny", TINY)
    engines = ("vllm-bf16", "vllm-w4a16", "vllm-gptq", "vllm-awq")
    options = ("--threads", "1", "--passes", "1", "--tokens", "8", "--prompt", "64", "--set", "llm.eager=true")
    subprocess.run(
        [
            *(sys.executable, str(HERE / "decode_bench.py"), "--model", str(folder), "--work", str(tmp_path / "work")),
            *("--json", str(tmp_path / "figures"), "--engines", *engines, *options),
        ],
        check=True,
    )
    found = json.loads((tmp_path / "figures").read_text())
    assert list(found) == [*engines, "run"]
    for engine in engines:
        assert {"decode_tps", "prefill_tps", "bytes_per_token", "rss_gb", "peak_load_gb"} <= found[engine].keys()
        assert min(found[engine][name] for name in ("decode_tps", "prefill_tps", "rss_gb")) > 0
    assert set(found["vllm-bf16"]["other_ways"]) == {"eager", "compiled"}
    assert found["vllm-gptq"]["bytes_per_token"] < found["vllm-bf16"]["bytes_per_token"] / 3
    assert [one["ratio"] > 0 for one in found["run"]["comparisons"]] == [True] * 3
