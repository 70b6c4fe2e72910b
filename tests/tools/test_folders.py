from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tiny_decoders import config, read, write_tiny_llama, write_tiny_spark

from ouzel.errors import CheckpointError, OutputError
from ouzel.tools.folders import INDEX, NewFolder, SourceFolder, refuse_quantized


def test_what_is_added_is_read_back(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    weights = {"a": torch.arange(6).view(2, 3), "b": torch.ones(2, dtype=torch.bfloat16), "c": torch.eye(3).t()}
    with NewFolder(tmp_path / "new", source) as new:
        new.add({name: weights[name] for name in "ab"})
        new.add({"c": weights["c"]})
        new.close({"model_type": "x"})
    assert config(tmp_path / "new") == {"model_type": "x"}
    found = read(tmp_path / "new")
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weight) for name, weight in weights.items())
    assert sorted(SourceFolder(tmp_path / "new").by_file()) == [["a", "b"], ["c"]]
    assert (tmp_path / "new/tokenizer_config.json").read_text() == (source / "tokenizer_config.json").read_text()


def test_what_is_not_closed_is_removed(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    with pytest.raises(ZeroDivisionError), NewFolder(tmp_path / "new", source) as new:
        new.add({"a": torch.ones(1)})
        _ = 1 / 0
    assert not (tmp_path / "new").exists()


def test_a_file_in_the_way_is_kept(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    (tmp_path / "new").write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        NewFolder(tmp_path / "new", source)
    assert (tmp_path / "new").read_text() == "mine"


def test_a_torn_checkpoint_is_said(tmp_path: Path) -> None:
    source = write_tiny_spark(tmp_path / "spark")
    with pytest.raises(CheckpointError, match="no tensor 'x'"):
        SourceFolder(source)["x"]
    with pytest.raises(CheckpointError, match="no tensor 'x'"):
        SourceFolder(source).shape("x")
    torn = source / "model-00002-of-00006.safetensors"
    torn.write_bytes(torn.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="model-00002.*torn"):
        SourceFolder(source)
    torn.unlink()
    with pytest.raises(CheckpointError, match=r"model-00002-of-00006\.safetensors is missing, which .*index"):
        SourceFolder(source)
    (source / INDEX).write_text("{}")
    with pytest.raises(CheckpointError, match="torn, expected weight_map"):
        SourceFolder(source)
    for path in (*source.glob("*.safetensors"), source / INDEX):
        path.unlink()
    with pytest.raises(CheckpointError, match="has no weights"):
        SourceFolder(source)


def test_the_index_says_which_tensors_there_are(tmp_path: Path) -> None:
    source = write_tiny_spark(tmp_path / "spark")
    (source / "consolidated.safetensors").write_bytes(b"in another layout")
    index = json.loads((source / INDEX).read_text())
    assert set(SourceFolder(source)) == set(index["weight_map"])
    index["weight_map"]["more"] = "model-00001-of-00006.safetensors"
    (source / INDEX).write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="isn't whole: .* names more, which no file has"):
        SourceFolder(source)


def test_a_folder_whose_files_cannot_be_copied_is_not_begun(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    (source / "vocab.json").symlink_to(tmp_path / "gone")
    with pytest.raises(OutputError, match="llama can't be copied to"):
        NewFolder(tmp_path / "new", source)
    assert not (tmp_path / "new").exists()


def test_quantized_weights_are_known_by_config_or_name(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "llama")
    refuse_quantized(SourceFolder(source))
    (source / "quantize_config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="quantized already"):
        refuse_quantized(SourceFolder(source))
