from __future__ import annotations

from pathlib import Path

import pytest
import torch
from plain_llama import PlainLlama
from spark_reference import logprobs as spark_logprobs
from tiny_decoders import config, read, write_tiny_llama, write_tiny_spark

from ouzel.errors import ConfigError, OutputError
from ouzel.tools.rotate import random_rotation, rotate

IDS = list(range(5, 45))


def test_a_rotation_is_orthogonal_and_its_seed_decides() -> None:
    turn = random_rotation(48, 0)
    assert torch.allclose(turn @ turn.T, torch.eye(48, dtype=torch.float64), atol=1e-12)
    assert torch.equal(turn, random_rotation(48, 0))
    assert not torch.allclose(turn, random_rotation(48, 1), atol=0.1)


def test_a_llama_does_what_it_did(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    rotate(source, tmp_path / "turned", dtype="float32")
    before, after = read(source), read(tmp_path / "turned")
    assert after.keys() == before.keys() | {"lm_head.weight"}
    for name, weight in before.items():
        if weight.ndim == 1:
            assert torch.equal(after[name], torch.ones(len(weight))), name
        else:
            assert (after[name] - weight).abs().mean() > 0.1 * weight.abs().mean(), name
    one, other = (PlainLlama(folder).logprobs(IDS) for folder in (source, tmp_path / "turned"))
    assert (one - other).abs().max() < 1e-4
    assert config(tmp_path / "turned")["tie_word_embeddings"] is False


def test_spark_does_what_it_did(tmp_path: Path) -> None:
    source = write_tiny_spark(tmp_path / "spark")
    rotate(source, tmp_path / "turned", dtype="float32")
    one, other = (spark_logprobs(config(folder), read(folder), IDS) for folder in (source, tmp_path / "turned"))
    assert (one - other).abs().max() < 1e-4


def test_bfloat16_is_rounded_to_once(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    rotate(source, tmp_path / "exact", dtype="float32")
    rotate(source, tmp_path / "rounded")
    exact, rounded = read(tmp_path / "exact"), read(tmp_path / "rounded")
    assert all(torch.equal(exact[name].bfloat16(), weight) for name, weight in rounded.items())


def test_what_cannot_be_rotated_is_refused(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    with pytest.raises(ConfigError, match="'int8' is not one of bfloat16, float32"):
        rotate(source, tmp_path / "turned", dtype="int8")
    with pytest.raises(OutputError, match="exists already"):
        rotate(source, source)
