"""A quantized checkpoint back in bfloat16: what its codes are worth, to prove packing and kernels by a plain model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from ouzel.errors import CheckpointError
from ouzel.quantization.grid import Grid
from ouzel.quantization.groups import FORMAT
from ouzel.quantization.portable import from_portable
from ouzel.quantization.public_layouts import unpack_awq, unpack_gptq
from ouzel.tools.folders import NewFolder, SourceFolder

__all__ = ["expand"]

Parts = Mapping[str, Tensor]
#: by `quant_method`: the grid of a layer's tensors
_UNPACK: Mapping[str, Callable[[Parts], Grid]] = {
    "gptq": unpack_gptq,
    "awq": unpack_awq,
    FORMAT: lambda parts: from_portable(parts["qweight"], parts["scales"], parts["offsets"]),
}
#: What a layer has in place of its weight. A scale of something else keeps its name: it stands by no `qweight`.
_PARTS = ("qweight", "qzeros", "scales", "offsets", "g_idx")


def expand(source: Path, folder: Path) -> None:
    """Write the quantized checkpoint `source` into the new `folder` in bfloat16.

    :raises CheckpointError: when the source isn't whole, or isn't quantized in four bits of a format known here
    :raises OutputError: when the folder has files already, or can't be written
    """
    given = SourceFolder(source)
    unpack = _unpacking(given)
    with NewFolder(folder, given.folder) as new:
        for names in given.by_file():
            new.add(_expanded(given, names, unpack))
        left = ("quantization_config", "dtype", "torch_dtype")
        config = {name: value for name, value in given.config.items() if name not in left}
        new.close(config | {"torch_dtype": "bfloat16"})


def _unpacking(given: SourceFolder) -> Callable[[Parts], Grid]:
    settings = given.config.get("quantization_config") or {}
    method = str(settings.get("quant_method"))
    if method not in _UNPACK or settings.get("bits", 4) != 4:
        raise CheckpointError(
            f"{given.folder}/config.json: quantization_config is {settings}; expected quant_method "
            f"{', '.join(_UNPACK)}, in four bits"
        )
    return _UNPACK[method]


def _expanded(given: SourceFolder, names: list[str], unpack: Callable[[Parts], Grid]) -> dict[str, Tensor]:
    modules = [name.removesuffix(".qweight") for name in names if name.endswith(".qweight")]
    packed = {f"{module}.{part}": (module, part) for module in modules for part in _PARTS}
    found = {name: given[name] for name in names if name not in packed}
    for module in modules:
        parts = {part: given[f"{module}.{part}"] for part in _PARTS if f"{module}.{part}" in given}
        found[f"{module}.weight"] = unpack(parts).dequantize().bfloat16()
    return found
