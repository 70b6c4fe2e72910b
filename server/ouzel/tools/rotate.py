"""A decoder whose residual stream is turned by a random orthogonal matrix: the same function, other weights.

Norms divide by a length, which no rotation changes, once their weights have gone into the linear layers that read them.
The embedding is turned, what reads the stream is turned back, and what writes into it is turned too. So a checkpoint
that was shipped on a four-bit grid leaves it, and flatters no quantizer. (SliceGPT, Ashkboos et al. 2024, and QuaRot,
2024, rotate in this way.)
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ouzel.errors import ConfigError
from ouzel.tools.decoder_names import DecoderNames, names_of
from ouzel.tools.folders import NewFolder, SourceFolder, refuse_quantized

__all__ = ["random_rotation", "rotate"]

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def rotate(source: Path, folder: Path, *, seed: int = 0, dtype: str = "bfloat16") -> None:
    """Write the checkpoint `source` into the new `folder`, rotated; its output head is untied.

    Computed in float64, and rounded once to `dtype`.

    :raises CheckpointError: when the source isn't whole, or is quantized
    :raises ConfigError: when its layers aren't known, or `dtype` is neither bfloat16 nor float32
    :raises OutputError: when the folder has files already, or can't be written
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}", param="dtype")
    given = SourceFolder(source)
    refuse_quantized(given)
    names = names_of(given)
    turn = random_rotation(given.shape(f"{names.norm}.weight")[0], seed)
    with NewFolder(folder, given.folder) as new:
        embedding, head = f"{names.embedding}.weight", f"{names.head}.weight"
        new.add({embedding: _rounded(given[embedding].double() @ turn, dtype)})
        left = [name for name in given if name not in (embedding, head)]
        for layer in range(names.layers):
            inside = {name: given[name] for name in left if name.startswith(names.prefix(layer))}
            turned = inside | _turned_layer(inside, names, layer, turn)
            new.add({name: _rounded(tensor, dtype) for name, tensor in turned.items()})
        layers = tuple(names.prefix(layer) for layer in range(names.layers))
        end = {name: given[name] for name in left if not name.startswith(layers)}
        tied = given.config.get("tie_word_embeddings", False) or head not in given
        norm = f"{names.norm}.weight"
        end[head] = (given[embedding if tied else head].double() * end[norm].double()) @ turn
        end[norm] = torch.ones_like(end[norm])
        new.add({name: _rounded(tensor, dtype) for name, tensor in end.items()})
        config = {name: value for name, value in given.config.items() if name not in ("dtype", "torch_dtype")}
        new.close(config | {"torch_dtype": dtype, "tie_word_embeddings": False})


def random_rotation(size: int, seed: int) -> Tensor:
    """[size, size] float64, orthogonal and uniformly distributed among such matrices."""
    noise = torch.randn(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    q, r = torch.linalg.qr(noise)
    # Without it Q would depend on the signs that this QR happens to choose (Mezzadri 2007, math-ph/0609050).
    return q * r.diagonal().sign()


def _turned_layer(tensors: dict[str, Tensor], names: DecoderNames, layer: int, turn: Tensor) -> dict[str, Tensor]:
    """What changes in a layer, in float64."""
    found: dict[str, Tensor] = {}
    for join in names.joins(layer):
        norm = f"{join.source}.weight"
        if tensors[norm].ndim == 1:
            for name in (*join.readers, *join.kept):
                weight = tensors[f"{name}.weight"].double()
                found[f"{name}.weight"] = (weight * tensors[norm].double()) @ turn
            found[norm] = torch.ones_like(tensors[norm])
        else:
            for name in join.readers:
                found[f"{name}.weight"] = turn.T @ tensors[f"{name}.weight"].double()
                if (bias := f"{name}.bias") in tensors:
                    found[bias] = tensors[bias].double() @ turn
    return found


def _rounded(tensor: Tensor, dtype: str) -> Tensor:
    return tensor.to(DTYPES[dtype]) if tensor.is_floating_point() else tensor
