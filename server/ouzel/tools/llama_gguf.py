"""A Llama-style checkpoint as a GGUF of floating-point weights, which `gguf_convert` reads back.

llama.cpp's rotary embedding turns neighbouring values of a head, Hugging Face's turns values half a head apart: the
rows of query and key heads change their order on the way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gguf import GGUFWriter, TokenType
from torch import Tensor

from ouzel.errors import CheckpointError, ConfigError
from ouzel.tools.folders import SourceFolder
from ouzel.tools.gguf_convert import INSIDE, OUTSIDE
from ouzel.tools.gguf_tensors import write_tensors

__all__ = ["write_llama_gguf"]

_KNOWN = ("llama", "mistral")
_MODEL = {ours: theirs for theirs, ours in OUTSIDE.items()}
_LAYER = {ours: theirs for theirs, ours in INSIDE.items()}


def write_llama_gguf(source: SourceFolder, file: Path, kind: str = "F32") -> None:
    """
    :param kind: F32, F16 or BF16
    :raises ConfigError: when the model isn't Llama-style, or scales its rotary embedding
    :raises CheckpointError: when it has a tensor that such a model hasn't
    """
    config = source.config
    if config["model_type"] not in _KNOWN:
        raise ConfigError(f"model_type {config['model_type']!r} isn't written as GGUF; known are {', '.join(_KNOWN)}")
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if rope.get("rope_type", rope.get("type", "default")) != "default":
        raise ConfigError(f"{source.folder}/config.json: a scaled rotary embedding isn't written as GGUF: {rope}")
    heads = config["num_attention_heads"]
    permuted = {"q_proj": heads, "k_proj": config.get("num_key_value_heads") or heads}

    def changed(name: str, tensor: Tensor) -> Tensor:
        count = permuted.get(name.removesuffix(".weight").rpartition(".")[2])
        return tensor if count is None else _pairs(tensor, count)

    writer = GGUFWriter(file, "llama")
    _add_settings(writer, config, rope)
    _add_tokenizer(writer, source)
    write_tensors(writer, source, _renamed, kind, changed=changed)


def _pairs(rows: Tensor, heads: int) -> Tensor:
    # rows: [heads × width, hidden], the width in halves → in pairs
    halves = rows.view(heads, 2, -1, rows.shape[-1])
    return halves.transpose(1, 2).reshape(rows.shape)


def _renamed(name: str) -> str:
    if name in _MODEL:
        return _MODEL[name]
    number, _, part = name.removeprefix("model.layers.").removesuffix(".weight").partition(".")
    if part not in _LAYER or not number.isdecimal():
        raise CheckpointError(f"tensor {name!r} has no place in a Llama-style GGUF")
    return f"blk.{number}.{_LAYER[part]}.weight"


def _add_settings(writer: GGUFWriter, config: Mapping[str, Any], rope: Mapping[str, Any]) -> None:
    heads = config["num_attention_heads"]
    size = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads") or heads)
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_rope_dimension_count(size)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(rope.get("rope_theta") or config.get("rope_theta") or 10000.0)


def _add_tokenizer(writer: GGUFWriter, source: SourceFolder) -> None:
    """Byte-level BPE as llama.cpp knows it; of any other tokenizer nothing, so that prompts are token ids."""
    path = source.folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    # llama.cpp refuses a vocabulary that merges nothing.
    if not tokenizer.get("model", {}).get("merges") or "ByteLevel" not in json.dumps(tokenizer["pre_tokenizer"]):
        writer.add_tokenizer_model("no_vocab")
        return
    tokens: dict[int, str] = {number: word for word, number in tokenizer["model"]["vocab"].items()}
    kinds = dict.fromkeys(tokens, TokenType.NORMAL)
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]] = added["content"]
        kinds[added["id"]] = TokenType.CONTROL if added["special"] else TokenType.USER_DEFINED
    numbers = range(source.config["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    # The words of a text are cut as the digits tell: one by one (`smollm`), or as GPT-2 does.
    writer.add_tokenizer_pre("smollm" if "Digits" in json.dumps(tokenizer["pre_tokenizer"]) else "gpt-2")
    writer.add_token_list([tokens.get(number, f"[PAD{number}]") for number in numbers])
    writer.add_token_types([kinds.get(number, TokenType.UNUSED) for number in numbers])
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    _add_special(writer, source)


def _add_special(writer: GGUFWriter, source: SourceFolder) -> None:
    adders = {"bos": writer.add_bos_token_id, "eos": writer.add_eos_token_id, "pad": writer.add_pad_token_id}
    for name, add in adders.items():
        token = source.config.get(f"{name}_token_id")
        if token is not None:
            add(token[0] if isinstance(token, list) else token)
    path = source.folder / "tokenizer_config.json"
    template = json.loads(path.read_text(encoding="utf-8")).get("chat_template") if path.is_file() else None
    if isinstance(template, str):
        writer.add_chat_template(template)
