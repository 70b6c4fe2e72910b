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
            if found := _expanded(given, names, unpack):
                new.add(found)
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
    kinds = (str(settings.get("checkpoint_format", "gptq")).lower(), str(settings.get("version", "gemm")).lower())
    if kinds != ("gptq", "gemm"):
        raise CheckpointError(
            f"{given.folder}/config.json: checkpoint_format and version are {' and '.join(kinds)}; expected gptq, gemm"
        )
    return _UNPACK[method]


def _expanded(given: SourceFolder, names: list[str], unpack: Callable[[Parts], Grid]) -> dict[str, Tensor]:
    modules = [name.removesuffix(".qweight") for name in names if name.endswith(".qweight")]
    # Parts of a module may lie in several files; it is expanded where its `qweight` is.
    found = {name: given[name] for name in names if not _is_part(given, name)}
    for module in modules:
        parts = {part: given[f"{module}.{part}"] for part in _PARTS if f"{module}.{part}" in given}
        found[f"{module}.weight"] = unpack(parts).dequantize().bfloat16()
    return found


def _is_part(given: SourceFolder, name: str) -> bool:
    module, _, part = name.rpartition(".")
    return part in _PARTS and f"{module}.qweight" in given
