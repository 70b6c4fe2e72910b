"""The tiny talker of the goldens: checkpoint folders in the published layout, alike on both sides.

`small` is the 0.6B in small (the predictor is as wide as the talker), `large` the 1.7B (it is narrower, so that
small_to_mtp_projection exists). Weights come from `seeded` by name; nothing of them is stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

import tiny_codec
from seeded import Shape, seeded_weights

CODEBOOK = 128
GROUPS = 16
HIDDEN = 64
# Ids of the text vocabulary: 256 bytes, then merges, then these.
SPECIAL = ("<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")
WORDS = (
    "assistant", "user", "hello", "HelloWorld", "World", " there", " the", "'s", "'ll", "'Tis", "//", "/\n", "12",
)  # fmt: skip
# What the published regex, special tokens and NFC can get wrong.
TEXTS = (
    "Hello there, the World!", "HelloWorld's 123 it'll don't 'Tis", "a  b\n\n  c \t d", "e\u0301t\u00e9 \u00fc\u0308",
    "http://the//\n/x", "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \U0001f600", "x<|im_end|>y",
)  # fmt: skip


def backbone(hidden: int, layers: int) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": 96,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000,
        "max_position_embeddings": 4096,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0,
        "use_sliding_window": False,
        "sliding_window": None,
        "initializer_range": 0.02,
        "use_cache": True,
        "num_code_groups": GROUPS,
    }


def config(size: str, model_type: str) -> dict[str, Any]:
    """The content of config.json; `size` is small or large."""
    ids = {token: id_ for id_, token in vocabulary().items()}
    special = {token: len(ids) + place for place, token in enumerate(SPECIAL)}
    codec = CODEBOOK + 100
    predictor = backbone(HIDDEN if size == "small" else 48, layers=2) | {
        "vocab_size": CODEBOOK,
        "rope_scaling": None,
        "layer_types": ["full_attention"] * 2,
        "max_window_layers": 28,
        "model_type": "qwen3_tts_talker_code_predictor",
        "pad_token_id": None,
    }
    talker = backbone(HIDDEN, layers=3) | {
        "vocab_size": CODEBOOK + 1024,
        "text_vocab_size": len(ids) + len(SPECIAL) + 3,
        "text_hidden_size": 40,
        "rope_scaling": {"interleaved": True, "mrope_section": [6, 5, 5], "rope_type": "default", "type": "default"},
        "position_id_per_seconds": 13,
        "model_type": "qwen3_tts_talker",
        "codec_pad_id": codec,
        "codec_bos_id": codec + 1,
        "codec_eos_token_id": codec + 2,
        "codec_think_id": codec + 6,
        "codec_nothink_id": codec + 7,
        "codec_think_bos_id": codec + 8,
        "codec_think_eos_id": codec + 9,
        "codec_language_id": {"english": codec - 98, "chinese": codec - 93, "sichuan_dialect": codec - 86},
        "spk_id": {"ryan": codec + 500, "eric": codec + 501} if model_type == "custom_voice" else {},
        "spk_is_dialect": {"ryan": False, "eric": "sichuan_dialect"} if model_type == "custom_voice" else {},
        "code_predictor_config": predictor,
    }
    top = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": "0b6" if size == "small" else "1b7",
        "tts_model_type": model_type,
        "im_start_token_id": special["<|im_start|>"],
        "im_end_token_id": special["<|im_end|>"],
        "tts_pad_token_id": special["<tts_pad>"],
        "tts_bos_token_id": special["<tts_text_bos>"],
        "tts_eos_token_id": special["<tts_text_eod>"],
        "talker_config": talker,
        "transformers_version": "4.57.3",
    }
    if model_type == "base":
        top["speaker_encoder_config"] = tiny_codec.SPEAKER | {"enc_dim": HIDDEN}
    return top


GENERATION = {
    "do_sample": True,
    "temperature": 0.9,
    "top_k": 50,
    "top_p": 1.0,
    "repetition_penalty": 1.05,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_k": 50,
    "subtalker_top_p": 1.0,
    "max_new_tokens": 8192,
}


def shapes(top: Mapping[str, Any]) -> dict[str, Shape]:
    """Published name and shape of every tensor of talker and predictor."""
    talker = top["talker_config"]
    predictor = talker["code_predictor_config"]
    hidden, text, inner = talker["hidden_size"], talker["text_hidden_size"], predictor["hidden_size"]
    found: dict[str, Shape] = {
        "talker.model.text_embedding.weight": (talker["text_vocab_size"], text),
        "talker.model.codec_embedding.weight": (talker["vocab_size"], hidden),
        "talker.text_projection.linear_fc1.weight": (text, text),
        "talker.text_projection.linear_fc1.bias": (text,),
        "talker.text_projection.linear_fc2.weight": (hidden, text),
        "talker.text_projection.linear_fc2.bias": (hidden,),
        "talker.codec_head.weight": (talker["vocab_size"], hidden),
    }
    for group in range(talker["num_code_groups"] - 1):
        found[f"talker.code_predictor.model.codec_embedding.{group}.weight"] = (predictor["vocab_size"], hidden)
        found[f"talker.code_predictor.lm_head.{group}.weight"] = (predictor["vocab_size"], inner)
    if inner != hidden:
        found["talker.code_predictor.small_to_mtp_projection.weight"] = (inner, hidden)
        found["talker.code_predictor.small_to_mtp_projection.bias"] = (inner,)
    return found | _layers("talker.model.", talker) | _layers("talker.code_predictor.model.", predictor)


def _layers(prefix: str, block: Mapping[str, Any]) -> dict[str, Shape]:
    hidden, inner, size = block["hidden_size"], block["intermediate_size"], block["head_dim"]
    queries, keys = block["num_attention_heads"] * size, block["num_key_value_heads"] * size
    found: dict[str, Shape] = {f"{prefix}norm.weight": (hidden,)}
    for layer in range(block["num_hidden_layers"]):
        parts: dict[str, Shape] = {
            "input_layernorm": (hidden,),
            "post_attention_layernorm": (hidden,),
            "self_attn.q_proj": (queries, hidden),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, queries),
            "self_attn.q_norm": (size,),
            "self_attn.k_norm": (size,),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }
        found |= {f"{prefix}layers.{layer}.{part}.weight": shape for part, shape in parts.items()}
    return found


def weights(top: Mapping[str, Any]) -> dict[str, NDArray[np.float32]]:
    return seeded_weights(shapes(top))


def write_checkpoint(folder: Path, size: str, model_type: str, *, shards: int = 1) -> Path:
    """Write the talker's side of a checkpoint; the codec has a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    top = config(size, model_type)
    dump(folder / "config.json", top)
    dump(folder / "generation_config.json", GENERATION)
    write_tokenizer(folder)
    write_weights(folder, weights(top), shards=shards)
    return folder


def write_weights(folder: Path, tensors: Mapping[str, NDArray[np.float32]], *, shards: int = 1) -> None:
    if shards == 1:
        save_file(dict(tensors), folder / "model.safetensors")
        return
    names = sorted(tensors)
    placed: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[shard::shards]
        save_file({name: tensors[name] for name in part}, folder / file)
        placed |= dict.fromkeys(part, file)
    write_index(folder, placed)


def write_index(folder: Path, placed: Mapping[str, str]) -> None:
    dump(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": placed})


def vocabulary() -> dict[int, str]:
    """Bytes as byte-level BPE writes them, then every prefix of `WORDS`."""
    tokens = list(_byte_letters().values())
    tokens += [left + right for left, right in merges()]
    return dict(enumerate(tokens))


def merges() -> list[tuple[str, str]]:
    letters = _byte_letters()
    found: dict[tuple[str, str], None] = {}
    for word in WORDS:
        spelled = "".join(letters[byte] for byte in word.encode())
        for end in range(1, len(spelled)):
            found.setdefault((spelled[:end], spelled[end]))
    return list(found)


def write_tokenizer(folder: Path) -> None:
    tokens = vocabulary()
    dump(folder / "vocab.json", {token: id_ for id_, token in tokens.items()})
    lines = "".join(f"{left} {right}\n" for left, right in merges())
    (folder / "merges.txt").write_text("#version: 0.2\n" + lines, encoding="utf-8")
    plain = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True}
    added = {str(len(tokens) + place): {"content": token} | plain for place, token in enumerate(SPECIAL)}
    tokenizer = {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": added, "model_max_length": 131072}
    dump(folder / "tokenizer_config.json", tokenizer | {"pad_token": "<tts_pad>", "eos_token": "<|im_end|>"})


def _byte_letters() -> dict[int, str]:
    # Byte-level BPE writes a byte that isn't a visible letter of Latin-1 as a letter from U+0100 on.
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + place) for place, byte in enumerate(hidden)}


def dump(file: Path, content: object) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
