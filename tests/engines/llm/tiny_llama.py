"""A Llama checkpoint in small, made of noise: 2 layers, a token for each ASCII letter, its test's own template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

END, START, TURN_OVER = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CONTEXT = 512
#: enough that one token leads to another
NOISE = 0.4

#: ChatML that wants to begin with anyone but the assistant, and tells of no tools
PLAIN = (
    "{%- if messages[0].role == 'assistant' %}{{ raise_exception('the user speaks first') }}{% endif %}"
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
#: calls tools the way that `hermes` reads
HERMES = "{%- for tool in tools or [] %}{{ tool.function.name }} answers in <tool_call> tags\n{% endfor %}" + PLAIN
#: thinks before it answers and calls tools the way that `glm45` reads
GLM = (
    "{%- for tool in tools or [] %}{{ tool.function.name }} <tool_call><arg_key><arg_value>\n{% endfor %}"
    + PLAIN
    + "{%- if enable_thinking is defined and not enable_thinking %}<think></think>{% else %}<think>{% endif %}"
)
#: A tag of calls that has no token of its own is read letter by letter, however noise spells it.
MARKS = ("<think>", "</think>")


def write_llama(folder: Path, template: str = PLAIN, **changes: Any) -> Path:
    """Write the checkpoint; `changes` go into its config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(folder / "tokenizer_config.json", _tokenizer_config(template))
    config = _config(tokenizer.get_vocab_size()) | changes
    _write(folder / "config.json", config)
    _write(folder / "generation_config.json", {"eos_token_id": config["eos_token_id"], "temperature": 0.8, "top_k": 50})
    save_file(_weights(config), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _tokenizer() -> Tokenizer:
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    written = [letters.pre_tokenize_str(chr(code))[0][0] for code in (9, 10, 13, *range(32, 127))]
    vocabulary = {letter: number for number, letter in enumerate(written)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = letters
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END, START, TURN_OVER])
    tokenizer.add_tokens(list(MARKS))
    return tokenizer


def _tokenizer_config(template: str) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": TURN_OVER,
        "bos_token": START,
        "pad_token": END,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": template,
    }


def _config(vocabulary: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocabulary,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "float32",
        "bos_token_id": vocabulary - len(MARKS) - 2,
        "eos_token_id": vocabulary - len(MARKS) - 1,
        "pad_token_id": vocabulary - len(MARKS) - 3,
    }


def _weights(config: dict[str, Any]) -> dict[str, torch.Tensor]:
    wide, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    rows, pairs = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    shapes: dict[str, tuple[int, ...]] = {"embed_tokens": (config["vocab_size"], wide), "norm": (wide,)}
    for layer in range(config["num_hidden_layers"]):
        name = f"layers.{layer}"
        shapes |= {
            f"{name}.input_layernorm": (wide,),
            f"{name}.post_attention_layernorm": (wide,),
            f"{name}.self_attn.q_proj": (rows, wide),
            f"{name}.self_attn.k_proj": (pairs, wide),
            f"{name}.self_attn.v_proj": (pairs, wide),
            f"{name}.self_attn.o_proj": (wide, rows),
            f"{name}.mlp.gate_proj": (inner, wide),
            f"{name}.mlp.up_proj": (inner, wide),
            f"{name}.mlp.down_proj": (wide, inner),
        }
    noise = torch.Generator().manual_seed(1)
    return {
        f"model.{name}.weight": torch.ones(shape) if len(shape) == 1 else torch.randn(shape, generator=noise) * NOISE
        for name, shape in shapes.items()
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1))
