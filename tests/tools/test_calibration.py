"""What vLLM's layers are given, against a forward pass in plain PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from plain_llama import PlainLlama
from safetensors.torch import load_file
from tiny_decoders import write_tiny_llama
from tokenizers import Tokenizer

from ouzel.errors import RequestError
from ouzel.tools.calibration import read_text

TEXT = "The river keeps its own time."


@pytest.mark.llm
@pytest.mark.timeout(200)
def test_each_layer_is_seen_under_its_own_name(tmp_path: Path) -> None:
    folder = write_tiny_llama(tmp_path / "llama")
    (tmp_path / "text").write_text(TEXT)
    command = [
        sys.executable,
        Path(__file__).with_name("run_calibration.py"),
        folder,
        tmp_path / "text",
        tmp_path / "s",
    ]
    subprocess.run(command, check=True, timeout=180)
    found = load_file(tmp_path / "s")
    model = PlainLlama(folder)
    model.logprobs(Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXT).ids)
    assert len(model.given) == 15
    assert {name.rpartition(".")[0] for name in found} == model.given.keys()
    for name, x in model.given.items():
        expected = {"mean_square": x.square().mean(0), "mean_abs": x.abs().mean(0), "second_moment": x.T @ x / len(x)}
        for part, value in expected.items():
            # vLLM computes in bfloat16 here.
            assert (found[f"{name}.{part}"] - value).norm() < 0.03 * value.norm(), (name, part)
        assert (found[f"{name}.rows"] - x).norm() < 0.03 * x.norm()


def test_the_text_that_comes_along_is_short() -> None:
    assert 5_000 < len(read_text("default")) < 10_000


def test_a_text_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, message in (("empty", "has no text"), ("binary", "can't be read"), ("missing", "can't be read")):
        with pytest.raises(RequestError, match=message):
            read_text(str(tmp_path / name))


def test_a_collector_sums_up_pieces() -> None:
    from ouzel.quantization.activations import Collector

    collector, whole = Collector(second_moment=True), Collector(second_moment=True)
    x = torch.randn(300, 8, generator=torch.Generator().manual_seed(1))
    whole.add(x)
    for piece in x.split(70):
        collector.add(piece)
    one, other = collector.activations(), whole.activations()
    for part in ("mean_square", "mean_abs", "rows", "second_moment"):
        assert torch.allclose(getattr(one, part), getattr(other, part), atol=1e-6)
    assert torch.equal(one.rows, x[:256])
