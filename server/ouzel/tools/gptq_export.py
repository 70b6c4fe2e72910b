"""A checkpoint in GPTQ's format: symmetric four bits, zero 8, groups in the order of the inputs.

vLLM's GPTQ config takes it with its own kernels: on a CPU `cpu_gemm_wna16`, or the int4 GEMM of AMX where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from ouzel.quantization.public_layouts import pack_gptq
from ouzel.tools.four_bit_export import Part, Seen, export, grid_of

__all__ = ["gptq_export"]


def gptq_export(source: Path, folder: Path, *, group: int = 128, search: bool = True, seen: Seen | None = None) -> int:
    """Write the checkpoint `source` into the new `folder`; the group that fits every layer is returned.

    :param group: the most inputs that share a scale: 128, 64 or 32
    :param search: look for the scale of each group with the least error
    :param seen: activations by module, by which the errors of inputs count, as `calibrate` finds them
    :raises CheckpointError: when the source isn't whole, or quantized already
    :raises ConfigError: when its layers aren't known, or have widths that groups of 32 don't divide
    :raises OutputError: when the folder has files already, or can't be written
    """
    return export(source, folder, _Gptq(search, seen or {}), group)


@dataclass(frozen=True, slots=True)
class _Gptq:
    search: bool
    seen: Seen = field(default_factory=dict)

    def prepare(self, part: Part, group: int) -> None:
        """Nothing has to be changed."""

    def quantize(self, module: str, weight: Tensor, group: int) -> dict[str, Tensor]:
        seen = self.seen.get(module)
        return pack_gptq(grid_of(weight, group, is_symmetric=True, search=self.search, seen=seen))

    def settings(self, group: int, kept: Sequence[str]) -> dict[str, Any]:
        # What isn't quantized has no `qweight`, by which vLLM knows it; the head must be said beside.
        return {
            "quant_method": "gptq",
            "checkpoint_format": "gptq",
            "bits": 4,
            "group_size": group,
            "sym": True,
            "desc_act": False,
            "lm_head": True,
        }
