"""How many inputs of a layer share a scale, and which weights of a language model are put into four bits. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from ouzel.errors import ConfigError

__all__ = ["FORMAT", "GROUPS", "group_size", "is_packed", "packed_bytes"]

#: `quant_method` of our own four-bit checkpoints, and the method's name in vLLM
FORMAT = "ouzel_w4a16"
#: inputs that share a scale; the largest first
GROUPS = (128, 64, 32)
#: Modules whose weights are put into four bits, by the last part of their names in Llama-style and Spark checkpoints.
#: Norms and Spark's `g_proj` aren't among them.
_PACKED = {
    "down_proj",
    "embed_tokens",
    "embedding",
    "gate_proj",
    "gate_up_proj",
    "k_proj",
    "lm_head",
    "o_proj",
    "out_proj",
    "q_k_v_proj",
    "q_proj",
    "qkv_proj",
    "up_proj",
    "v_proj",
}


def group_size(width: int, most: int) -> int:
    """The largest group that is at most `most` and divides a layer's width, the number of its inputs.

    :raises ConfigError: when none divides it
    """
    for group in GROUPS:
        if group <= most and width % group == 0:
            return group
    fitting = [str(group) for group in GROUPS if group <= most]
    raise ConfigError(
        f"a layer of {width} inputs can't be quantized in groups of at most {most}: none of {', '.join(fitting)} "
        f"divides {width}; expected a multiple of {GROUPS[-1]}"
    )


def is_packed(name: str, shape: Sequence[int]) -> bool:
    """Whether the tensor of a checkpoint is a weight that is put into four bits."""
    module, _, kind = name.rpartition(".")
    return kind == "weight" and len(shape) == 2 and module.rpartition(".")[2] in _PACKED


def packed_bytes(shape: Sequence[int], most: int) -> int:
    """What such a weight takes in memory: half a byte a value, and four bytes a group for scale and offset.

    :raises ConfigError: when no group divides its width
    """
    rows, width = shape
    return rows * width // 2 + rows * (width // group_size(width, most)) * 4
