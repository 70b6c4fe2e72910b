"""What GPTQ and AWQ exports share: a checkpoint goes through part by part, and its linear layers come out in four bits.

The embedding stays in bfloat16 for look-ups. The output head is the largest read of a decode step, so it gets four bits
of its own where it was the embedding before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from ouzel.errors import ConfigError
from ouzel.quantization.activations import Activations
from ouzel.quantization.feedback import with_feedback
from ouzel.quantization.grid import GROUPS, Grid, group_size
from ouzel.quantization.integer_zero import integer_zero
from ouzel.quantization.symmetric import symmetric
from ouzel.tools.decoder_names import DecoderNames, Join, names_of
from ouzel.tools.folders import NewFolder, SourceFolder, refuse_quantized

__all__ = ["Format", "Part", "Seen", "export", "grid_of"]

#: vLLM's kernel for four bits on a CPU takes outputs by so many, and pads a vocabulary to twice that
_OUTPUTS = 32
#: by the name of a linear layer in the checkpoint
Seen = Mapping[str, Activations]


@dataclass(slots=True)
class Part:
    """Tensors that are read, changed and written together, and the joins among them."""

    tensors: dict[str, Tensor]
    joins: tuple[Join, ...]


class Format(Protocol):
    """One format of four-bit checkpoints."""

    def prepare(self, part: Part, group: int) -> None:
        """Change the part's tensors before they are quantized, so that they do what they did."""

    def quantize(self, module: str, weight: Tensor, group: int) -> dict[str, Tensor]:
        """The tensors that stand for a linear layer's weight, by their names within the module."""

    def settings(self, group: int, kept: Sequence[str]) -> dict[str, Any]:
        """`quantization_config` of config.json; `kept` are modules of the layers that aren't quantized."""


def export(source: Path, folder: Path, form: Format, most: int) -> int:
    """Write the checkpoint `source` into the new `folder` in four bits; the group that fits every layer is returned.

    :param most: inputs that share a scale: 128, 64 or 32; smaller ones are taken where a layer's width demands it
    :raises CheckpointError: when the source isn't whole, or quantized already
    :raises ConfigError: when the group is none of these, or layers aren't known or have widths that 32 doesn't divide
    :raises OutputError: when the folder has files already, or can't be written
    """
    if most not in GROUPS:
        raise ConfigError(f"a group of {most} is not one of {', '.join(map(str, GROUPS))}", param="group")
    given = SourceFolder(source)
    refuse_quantized(given)
    names = names_of(given)
    group = _group(given, names, most)
    with NewFolder(folder, given.folder) as new:
        for part in _parts(given, names):
            form.prepare(part, group)
            tensors = dict(part.tensors)
            for module in (module for join in part.joins for module in join.readers):
                packed = form.quantize(module, tensors.pop(f"{module}.weight"), group)
                tensors |= {f"{module}.{name}": tensor for name, tensor in packed.items()}
            new.add({name: _stored(tensor) for name, tensor in tensors.items()})
        settings = form.settings(group, names.kept)
        new.write_json("quantize_config.json", settings)
        config = {name: value for name, value in given.config.items() if name not in ("dtype", "torch_dtype")}
        changes = {"torch_dtype": "bfloat16", "tie_word_embeddings": False, "quantization_config": settings}
        new.close(config | changes)
    return group


def _group(given: SourceFolder, names: DecoderNames, most: int) -> int:
    """One for all layers, for the formats say one."""
    modules = [name for layer in range(names.layers) for name in names.linears(layer)]
    shapes = {module: given.shape(f"{module}.weight") for module in modules}
    shapes[names.head] = given.shape(f"{names.embedding}.weight")
    for module, (outputs, _) in shapes.items():
        multiple = 2 * _OUTPUTS if module == names.head else _OUTPUTS
        if outputs % multiple:
            raise ConfigError(f"{module} has {outputs} outputs; four bits on a CPU need a multiple of {multiple}")
    return min(group_size(width, most) for _, width in shapes.values())


def _parts(given: SourceFolder, names: DecoderNames) -> Iterator[Part]:
    """The embedding, each layer, and the end with a head of its own; what belongs to none of them goes with the end."""
    embedding, head = f"{names.embedding}.weight", f"{names.head}.weight"
    yield Part({embedding: given[embedding]}, ())
    left = [name for name in given if name not in (embedding, head)]
    for layer in range(names.layers):
        inside = [name for name in left if name.startswith(names.prefix(layer))]
        yield Part({name: given[name] for name in inside}, tuple(names.joins(layer)))
    layers = tuple(names.prefix(layer) for layer in range(names.layers))
    tied = given.config.get("tie_word_embeddings", False) or head not in given
    end = {name: given[name] for name in left if not name.startswith(layers)}
    yield Part(end | {head: given[embedding if tied else head].clone()}, (Join(names.norm, (names.head,)),))


def _stored(tensor: Tensor) -> Tensor:
    return tensor.bfloat16() if tensor.is_floating_point() else tensor


def grid_of(weight: Tensor, group: int, *, is_symmetric: bool, search: bool, seen: Activations | None) -> Grid:
    """By the importance of the inputs where it is known, with feedback where their second moment is."""
    choose = symmetric if is_symmetric else integer_zero
    if seen is not None and seen.second_moment is not None:
        return with_feedback(
            weight,
            group,
            seen.second_moment,
            lambda part, factor: choose(part, group, importance=factor, search=search),
        )
    return choose(weight, group, importance=None if seen is None else seen.mean_square, search=search)
