"""Makes a Spark-X2.5 checkpoint of random weights: it costs what a real one costs, and says nothing.

Names and shapes are the published ones, so that it loads as a downloaded folder does.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from safetensors.torch import save_file
from torch import Tensor

from ouzel.errors import OutputError, RequestError
from ouzel.tools.stand_in_tokenizer import END_IDS, write_tokenizer

__all__ = ["SPARK_1_7B", "TINY", "Geometry", "make_checkpoint", "random_weight", "shapes"]

Shape = tuple[int, ...]

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
#: every layer whose number, from 1, this divides sees everything; the others have a window
FULL_EVERY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """The sizes of a checkpoint; those of the 1.7B where nothing else is said."""

    layers: int = 28
    hidden: int = 2048
    inner: int = 6656
    heads: int = 8
    kv_heads: int = 2
    head_size: int = 256
    vocabulary: int = 131072
    #: positions that a sliding layer sees, the token's own included
    window: int = 512
    #: whether the embedding is the output head too
    tied: bool = True


SPARK_1_7B = Geometry()
TINY = Geometry(layers=8, hidden=256, inner=640, head_size=64, vocabulary=1024, window=32)


def make_checkpoint(
    folder: Path, geometry: Geometry = SPARK_1_7B, *, dtype: str = "bfloat16", seed: int = 0, tokenizer: bool = True
) -> Path:
    """Write config.json, safetensors by layer and a stand-in tokenizer into a new folder, which is returned.

    One layer is in memory at a time; a tensor depends on its name, its shape, its dtype and the seed alone.

    :raises OutputError: when the folder has files already, or can't be written
    :raises RequestError: when `dtype` is neither bfloat16 nor float32
    """
    if dtype not in DTYPES:
        raise RequestError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}", param="dtype")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise OutputError(f"{folder} has files already: name a folder that is new or empty")
        (folder / "config.json").write_text(json.dumps(_config(geometry, dtype), indent=2) + "\n")
        if tokenizer:
            write_tokenizer(folder, geometry.vocabulary)
        _write_weights(folder, geometry, DTYPES[dtype], seed)
    except OSError as error:
        raise OutputError(f"{folder} can't be written: {error}") from error
    return folder


def random_weight(name: str, shape: Shape, dtype: torch.dtype, seed: int) -> Tensor:
    """Norms are 1 ± 0.2, all else is normal with a standard deviation of 1/√columns."""
    draw = torch.Generator().manual_seed(zlib.crc32(name.encode(), seed))
    if len(shape) == 1:
        return torch.empty(shape).uniform_(0.8, 1.2, generator=draw).to(dtype)
    return torch.randn(shape, generator=draw, dtype=dtype).mul_(1 / math.sqrt(shape[1]))


def _write_weights(folder: Path, geometry: Geometry, dtype: torch.dtype, seed: int) -> None:
    parts = list(shapes(geometry))
    index: dict[str, str] = {}
    size = 0
    for number, part in enumerate(parts, 1):
        file = f"model-{number:05}-of-{len(parts):05}.safetensors"
        weights = {name: random_weight(name, shape, dtype, seed) for name, shape in part.items()}
        save_file(weights, folder / file, metadata={"format": "pt"})
        index |= dict.fromkeys(weights, file)
        size += sum(weight.nbytes for weight in weights.values())
    content = {"metadata": {"total_size": size}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(content, indent=2) + "\n")


def shapes(geometry: Geometry) -> Iterator[Mapping[str, Shape]]:
    """Of every tensor by its published name, in the pieces that are made and written as one."""
    hidden = geometry.hidden
    yield {"model.embedding.weight": (geometry.vocabulary, hidden)}
    for number in range(geometry.layers):
        yield {f"model.layers.{number}.{name}.weight": shape for name, shape in _layer(geometry).items()}
    yield {"model.norm.weight": (hidden,)} | (
        {} if geometry.tied else {"lm_head.weight": (geometry.vocabulary, hidden)}
    )


def _layer(geometry: Geometry) -> dict[str, Shape]:
    hidden, inner = geometry.hidden, geometry.inner
    wide, narrow = geometry.heads * geometry.head_size, geometry.kv_heads * geometry.head_size
    return {
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
        "self_attn.q_k_v_proj": (wide + 2 * narrow, hidden),
        "self_attn.g_proj": (geometry.heads, hidden),
        "self_attn.out_proj": (hidden, wide),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }


def _config(geometry: Geometry, dtype: str) -> dict[str, Any]:
    kinds = ("sliding_attention", "full_attention")
    return {
        "architectures": ["Spark2_5ForCausalLM"],
        "model_type": "spark2_5",
        "hidden_size": geometry.hidden,
        "intermediate_size": geometry.inner,
        "num_hidden_layers": geometry.layers,
        "num_attention_heads": geometry.heads,
        "num_key_value_heads": geometry.kv_heads,
        "head_dim": geometry.head_size,
        "vocab_size": geometry.vocabulary,
        "sliding_window": geometry.window,
        "layer_types": [kinds[number % FULL_EVERY == 0] for number in range(1, geometry.layers + 1)],
        "rope_parameters": {
            "full_attention": {"rope_theta": 5000000, "partial_rotary_factor": 0.25},
            "sliding_attention": {"rope_theta": 10000, "partial_rotary_factor": 1.0},
        },
        "headwise_attn_output_gate": True,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": geometry.tied,
        "max_position_embeddings": 1 << 20,
        "torch_dtype": dtype,
        "eos_token_id": list(END_IDS),
    }


def main(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    tiny: Annotated[bool, typer.Option("--tiny", help="8 layers of width 256 instead of the 1.7B.")] = False,
    layers: Annotated[int | None, typer.Option(min=1, help="Another number of layers.")] = None,
    vocabulary: Annotated[int | None, typer.Option(min=512, help="Another number of tokens.")] = None,
    untied: Annotated[bool, typer.Option("--untied", help="An output head of its own.")] = False,
    dtype: Annotated[str, typer.Option(help="bfloat16 or float32.")] = "bfloat16",
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Make a Spark-X2.5 checkpoint of random weights, for measuring."""
    sizes = TINY if tiny else SPARK_1_7B
    sizes = replace(sizes, layers=layers or sizes.layers, vocabulary=vocabulary or sizes.vocabulary, tied=not untied)
    make_checkpoint(folder, sizes, dtype=dtype, seed=seed)


if __name__ == "__main__":
    typer.run(main)
