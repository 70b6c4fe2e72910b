"""The parts of a decoder by the names of its checkpoint, and which of them meet at the same activations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ouzel.errors import ConfigError
from ouzel.tools.folders import SourceFolder

__all__ = ["DecoderNames", "Join", "names_of"]


@dataclass(frozen=True, slots=True)
class Join:
    """Linear layers that read the same activations, and what these come from."""

    #: a norm, or a linear layer whose last rows are the activations' channels, but for a factor each
    source: str
    #: modules that read them and are quantized
    readers: tuple[str, ...]
    #: modules that read them and aren't quantized
    kept: tuple[str, ...] = ()
    #: where heads of values are shared: how many of the readers' heads read each, and the size of one
    sharing: int = 1
    head_size: int = 0


@dataclass(frozen=True, slots=True)
class DecoderNames:
    """Module names of one model, without `.weight`."""

    layers: int
    heads: int
    kv_heads: int
    head_size: int
    embedding: str
    out: str
    attention: tuple[str, ...]  # what reads the first norm of a layer
    kept: tuple[str, ...] = ()  # what reads it too and stays in floating point
    norm: str = "model.norm"
    head: str = "lm_head"

    def prefix(self, layer: int) -> str:
        return f"model.layers.{layer}."

    def joins(self, layer: int) -> Iterator[Join]:
        """The four of one layer, in the order of the computation."""
        at = self.prefix(layer)
        inner = tuple(f"{at}self_attn.{name}" for name in self.attention)
        kept = tuple(f"{at}self_attn.{name}" for name in self.kept)
        mlp = f"{at}mlp."
        yield Join(f"{at}input_layernorm", inner, kept)
        out = f"{at}self_attn.{self.out}"
        yield Join(inner[-1], (out,), sharing=self.heads // self.kv_heads, head_size=self.head_size)
        yield Join(f"{at}post_attention_layernorm", (f"{mlp}gate_proj", f"{mlp}up_proj"))
        yield Join(f"{mlp}up_proj", (f"{mlp}down_proj",))

    def linears(self, layer: int) -> tuple[str, ...]:
        """Those of one layer that are quantized."""
        return tuple(name for join in self.joins(layer) for name in join.readers)


_LLAMA: dict[str, Any] = {
    "embedding": "model.embed_tokens",
    "attention": ("q_proj", "k_proj", "v_proj"),
    "out": "o_proj",
}
#: by `model_type`: decoders with a norm before attention and one before the MLP, whose weights multiply as they are
_KNOWN: Mapping[str, dict[str, Any]] = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _LLAMA,
    "spark2_5": {
        "embedding": "model.embedding",
        "attention": ("q_k_v_proj",),
        "out": "out_proj",
        "kept": ("g_proj",),
    },
}


def names_of(source: SourceFolder) -> DecoderNames:
    """
    :raises ConfigError: when the model is of a type whose layers aren't known here
    """
    kind = source.config["model_type"]
    if kind not in _KNOWN:
        raise ConfigError(f"model_type {kind!r} has layers unknown here; known are {', '.join(_KNOWN)}")
    config = source.config
    heads = config["num_attention_heads"]
    return DecoderNames(
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_size=config.get("head_dim") or config["hidden_size"] // heads,
        **_KNOWN[kind],
    )
