"""The tensors of a checkpoint into a GGUF, one in memory at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from torch import Tensor

from ouzel.tools.folders import SourceFolder

__all__ = ["FLOATS", "write_tensors"]

#: as GGUF names them: the type in memory, the bytes of a value
FLOATS = {"F32": (torch.float32, 4), "F16": (torch.float16, 2), "BF16": (torch.bfloat16, 2)}


def write_tensors(
    writer: GGUFWriter,
    source: SourceFolder,
    renamed: Callable[[str], str],
    kind: str,
    *,
    changed: Callable[[str, Tensor], Tensor] = lambda _, tensor: tensor,
) -> None:
    """Write the header and every tensor, matrices as `kind` and the rest in F32, and close the file.

    :param renamed: from a checkpoint's name to llama.cpp's
    :param changed: what llama.cpp expects in place of a tensor, by the checkpoint's name; of the same shape
    """
    for name in source:
        shape = source.shape(name)
        type_, size = _type(shape, kind), FLOATS[_type(shape, kind)][1]
        writer.add_tensor_info(
            renamed(name), shape, np.dtype(np.float32), size * int(np.prod(shape)), GGMLQuantizationType[type_]
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name in source:
        tensor = changed(name, source[name])
        written = tensor.to(FLOATS[_type(tuple(tensor.shape), kind)][0]).contiguous()
        # NumPy has no bfloat16, and the file wants nothing but its bytes.
        writer.write_tensor_data((written.view(torch.int16) if written.element_size() == 2 else written).numpy())
    writer.close()


def _type(shape: tuple[int, ...], kind: str) -> str:
    return kind if len(shape) == 2 else "F32"
