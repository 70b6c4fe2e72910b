"""There and back again: `gguf_convert` reads what is written here."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from tiny_decoders import VOCABULARY, config, read, write_tiny_llama, write_tiny_spark
from tokenizers import Tokenizer

from ouzel.errors import CheckpointError, ConfigError, OutputError, RequestError

pytestmark = pytest.mark.llm  # `gguf` comes with vLLM


def give_merges(path: Path) -> None:
    """A merge, and words that are cut as SmolLM's are."""
    tokenizer = json.loads(path.read_text())
    tokenizer["model"]["vocab"]["th"] = tokenizer["model"]["vocab"].pop("~")
    tokenizer["model"]["merges"] = [["t", "h"]]
    words = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    parts = [{"type": "Digits", "individual_digits": True}, words]
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": parts}
    path.write_text(json.dumps(tokenizer))


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    from ouzel.tools.gguf_convert import convert
    from ouzel.tools.gguf_export import gguf_export

    source = write_tiny_llama(tmp_path / "llama")
    give_merges(source / "tokenizer.json")
    gguf_export(source, tmp_path / "made.gguf", "F32")
    convert(tmp_path / "made.gguf", tmp_path / "back")
    words = [Tokenizer.from_file(str(folder / "tokenizer.json")) for folder in (source, tmp_path / "back")]
    assert words[0].encode("the 12th", add_special_tokens=False).tokens == ["th", "e", "Ġ", "1", "2", "th"]
    assert words[1].encode("the 12th").ids == words[0].encode("the 12th").ids
    before, after = read(source), read(tmp_path / "back")
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], weight.bfloat16()) for name, weight in before.items())
    kept = ("vocab_size", "hidden_size", "num_hidden_layers", "num_key_value_heads", "rope_theta", "rms_norm_eps")
    assert [config(tmp_path / "back")[name] for name in kept] == [config(source)[name] for name in kept]


@pytest.mark.parametrize(("kind", "dtype"), [("F32", torch.float32), ("F16", torch.float16), ("BF16", torch.bfloat16)])
def test_matrices_are_of_the_wanted_type(tmp_path: Path, kind: str, dtype: torch.dtype) -> None:
    from gguf import GGUFReader

    from ouzel.tools.gguf_export import gguf_export

    source = write_tiny_llama(tmp_path / "llama")
    gguf_export(source, tmp_path / "made.gguf", kind)
    tensors = {tensor.name: tensor for tensor in GGUFReader(tmp_path / "made.gguf").tensors}
    found = tensors["blk.1.ffn_down.weight"]
    assert found.tensor_type.name == kind
    stored = torch.frombuffer(bytearray(found.data.tobytes()), dtype=dtype).view(64, 128)
    assert torch.equal(stored, read(source)["model.layers.1.mlp.down_proj.weight"].to(dtype))
    assert tensors["blk.1.attn_norm.weight"].tensor_type.name == "F32"
    assert tuple(tensors["token_embd.weight"].shape) == (64, VOCABULARY)


def test_spark_is_written_too(tmp_path: Path) -> None:
    from gguf import GGUFReader

    from ouzel.tools.gguf_export import gguf_export

    gguf_export(write_tiny_spark(tmp_path / "spark"), tmp_path / "made.gguf", "BF16")
    tensors = {tensor.name: tensor for tensor in GGUFReader(tmp_path / "made.gguf").tensors}
    assert tensors["blk.3.attn_qkv.weight"].tensor_type.name == "BF16"


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    from ouzel.tools.gguf_export import gguf_export
    from ouzel.tools.gptq_export import gptq_export

    source = write_tiny_llama(tmp_path / "llama")
    with pytest.raises(RequestError, match="'Q2_K' is not one of F32"):
        gguf_export(source, tmp_path / "made.gguf", "Q2_K")
    (tmp_path / "mine.gguf").write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        gguf_export(source, tmp_path / "mine.gguf")
    gptq_export(source, tmp_path / "gptq", group=32)
    with pytest.raises(CheckpointError, match="quantized already"):
        gguf_export(tmp_path / "gptq", tmp_path / "made.gguf")
    path = source / "config.json"
    path.write_text(path.read_text().replace('"rope_theta"', '"rope_scaling": {"rope_type": "llama3"}, "rope_theta"'))
    with pytest.raises(ConfigError, match="scaled rotary embedding"):
        gguf_export(source, tmp_path / "made.gguf")
    assert not (tmp_path / "made.gguf").exists()


def test_llama_cpp_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ouzel.tools.gguf_export import gguf_export

    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(ConfigError, match="pip install llama-cpp-python"):
        gguf_export(write_tiny_llama(tmp_path / "llama"), tmp_path / "made.gguf", "Q4_K_M")
