"""A Llama-style GGUF file as a Hugging Face folder: weights in bfloat16, tokenizer, chat template, generation config.

The layout of GGUF and the names in it: ggml's `docs/gguf.md` and llama.cpp's `gguf-py`. llama.cpp turns the rows of
each query and key head from halves into pairs, for its own rotary embedding; here they are turned back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.torch import save
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from ouzel.errors import CheckpointError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["INSIDE", "OUTSIDE", "convert"]

#: llama.cpp's name → that of the checkpoint: outside the layers, and in one (both without `.weight` there)
OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
INSIDE = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER = re.compile(r"blk\.(\d+)\.(\w+)\.weight")
_CONTROL = 3  # a token that is written in one piece and never comes from a text's own letters


def convert(gguf: Path, folder: Path, *, sampling: Mapping[str, Any] | None = None) -> None:
    """Write `folder` from the file `gguf`.

    :param sampling: settings for generation_config.json beside the special tokens
    :raises CheckpointError: when the file is torn, or is not of a kind that is known here: which key or tensor says so
    """
    try:
        reader = GGUFReader(gguf)
    except (OSError, ValueError, IndexError) as error:
        raise CheckpointError(f"{gguf} is torn or no GGUF: {error}") from error
    header = _Header(gguf, reader)
    folder.mkdir(parents=True, exist_ok=True)
    weights = dict(_weights(header, reader))
    (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))
    special = {f"{name}_token_id": header.optional(f"tokenizer.ggml.{key}_token_id") for name, key in _SPECIAL.items()}
    special = {name: token for name, token in special.items() if token is not None}
    _write(folder / "config.json", {**_config(header, tied="lm_head.weight" not in weights), **special})
    _write(folder / "generation_config.json", {**special, **(sampling or {})})
    _tokenizer(header).save(str(folder / "tokenizer.json"))
    _write(folder / "tokenizer_config.json", _tokenizer_config(header))


#: as Hugging Face names a special token → as GGUF does
_SPECIAL = {"bos": "bos", "eos": "eos", "pad": "padding"}


class _Header:
    """What a GGUF file says before its tensors, by key."""

    def __init__(self, path: Path, reader: GGUFReader) -> None:
        self.path, self._fields = path, reader.fields

    def optional(self, key: str) -> Any:
        return self._fields[key].contents() if key in self._fields else None

    def __getitem__(self, key: str) -> Any:
        value = self.optional(key)
        if value is None:
            raise CheckpointError(f"{self.path}: {key} is missing")
        return value

    def expect(self, key: str, *known: str) -> str:
        """The value of a key that must be one of those known here."""
        value = self[key]
        if value not in known:
            raise CheckpointError(f"{self.path}: {key} is {value!r}; known here: {', '.join(known)}")
        return str(value)


def _config(header: _Header, *, tied: bool) -> dict[str, Any]:
    kind = header.expect("general.architecture", "llama")
    heads = header[f"{kind}.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "vocab_size": len(header["tokenizer.ggml.tokens"]),
        "hidden_size": header[f"{kind}.embedding_length"],
        "intermediate_size": header[f"{kind}.feed_forward_length"],
        "num_hidden_layers": header[f"{kind}.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": header[f"{kind}.attention.head_count_kv"],
        "head_dim": header[f"{kind}.embedding_length"] // heads,
        "hidden_act": "silu",
        "max_position_embeddings": header[f"{kind}.context_length"],
        "rms_norm_eps": _shortest(header[f"{kind}.attention.layer_norm_rms_epsilon"]),
        "rope_theta": _shortest(header[f"{kind}.rope.freq_base"]),
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": tied,
    }


def _shortest(value: float) -> float:
    """The decimal that a float32 was written from: 9.99999975e-06 was 1e-05."""
    return float(str(np.float32(value)))


def _weights(header: _Header, reader: GGUFReader) -> Iterator[tuple[str, torch.Tensor]]:
    kind = header.expect("general.architecture", "llama")
    heads = {"attn_q": header[f"{kind}.attention.head_count"], "attn_k": header[f"{kind}.attention.head_count_kv"]}
    for tensor in reader.tensors:
        layer = _LAYER.fullmatch(tensor.name)
        values = dequantize(tensor.data, tensor.tensor_type)
        if layer and layer[2] in INSIDE:
            name = f"model.layers.{layer[1]}.{INSIDE[layer[2]]}.weight"
            if layer[2] in heads:
                values = _halves(values, heads[layer[2]])
        elif tensor.name in OUTSIDE:
            name = OUTSIDE[tensor.name]
        else:
            raise CheckpointError(f"{header.path}: tensor {tensor.name!r} has no place in a Llama-style model")
        yield name, torch.tensor(values, dtype=torch.bfloat16)


def _halves(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    # rows: [heads × width, hidden] float32, the width in pairs → in halves
    pairs = rows.reshape(heads, -1, 2, rows.shape[-1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def _tokenizer(header: _Header) -> Tokenizer:
    header.expect("tokenizer.ggml.model", "gpt2")
    header.expect("tokenizer.ggml.pre", "smollm")
    words = header["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in header["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, merges))
    # `smollm`: each digit alone, then GPT-2's words.
    digits, bytes_ = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, bytes_])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = header["tokenizer.ggml.token_type"]
    control = [word for word, kind in zip(words, kinds, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in control])
    return tokenizer


def _tokenizer_config(header: _Header) -> dict[str, Any]:
    words = header["tokenizer.ggml.tokens"]
    named = {name: header.optional(f"tokenizer.ggml.{key}_token_id") for name, key in _SPECIAL.items()}
    return {
        # the class that takes tokenizer.json as it is
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": header["llama.context_length"],
        **{f"{name}_token": words[number] for name, number in named.items() if number is not None},
        "chat_template": header["tokenizer.chat_template"],
    }


def _write(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
