"""The commands; what they write is tested beside each tool."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from tiny_decoders import config, read, write_tiny_llama
from typer.testing import CliRunner

from ouzel.cli import app


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_gptq_there_and_back(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    done = run("gptq-export", source, tmp_path / "gptq", "--group", 32, "--no-search")
    assert done.exit_code == 0, done.output
    assert "GPTQ, groups of 32" in done.stderr
    assert run("expand", tmp_path / "gptq", tmp_path / "back").exit_code == 0
    assert read(tmp_path / "back").keys() == read(source).keys() | {"lm_head.weight"}


def test_rotation_has_a_seed(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    for seed in (1, 2):
        assert run("rotate", source, tmp_path / f"{seed}", "--seed", seed, "--dtype", "float32").exit_code == 0
    one, two = (read(tmp_path / seed)["model.embed_tokens.weight"] for seed in "12")
    assert (one - two).abs().max() > 0.01
    assert config(tmp_path / "1")["torch_dtype"] == "float32"


@pytest.mark.llm
def test_gguf_has_a_type(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    assert run("gguf-export", source, tmp_path / "made.gguf", "--type", "BF16").exit_code == 0
    assert (tmp_path / "made.gguf").read_bytes()[:4] == b"GGUF"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["llama", "made.gguf"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("gptq-export", "llama", "new", "--group", "100"), 6, "a group of 100 is not one of 128, 64, 32"),
        (("gptq-export", "llama", "new", "--feedback"), 2, "--feedback needs --calibrate"),
        (("gptq-export", "llama", "new", "--calibrate", "nowhere"), 2, "nowhere can't be read as text"),
        (("awq-export", "llama", "llama"), 7, "llama exists already"),
        (("expand", "llama", "new"), 5, "expected quant_method gptq"),
        (("rotate", "missing", "new"), 2, "'missing' is neither pulled"),
        (("gguf-export", "llama", "new", "--type", "Q3"), 2, "'Q3' is not one of"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tiny_llama(tmp_path / "llama")
    done = run(*arguments)
    assert (done.exit_code, message in done.stderr) == (code, True), done.stderr
    assert not (tmp_path / "new").exists()
