"""`ouzel_w4a16` for vLLM: weights in four bits by groups, activations in bfloat16, on any CPU that torch knows.

config.json of a checkpoint that `ouzel quantize` wrote says
`"quantization_config": {"quant_method": "ouzel_w4a16", "group_size": 128}`; instead of `NAME.weight` it has
`NAME.qweight`, `NAME.scales` and `NAME.offsets` (`quantization.portable`). A checkpoint in floating point is quantized
while it is loaded, a tensor at a time, onto the same grid (`"at_load": true`, which the stage adds). Linear layers,
embedding and output head are in four bits, norms, biases and Spark's `g_proj` as they were.

What the linear layer calls is an op that the compiler doesn't look into, so whether a step has one row or many is
decided while it runs. The configuration names group and kernel: compiled graphs are cached under it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from vllm.model_executor.layers.linear import LinearBase
from vllm.model_executor.layers.quantization import register_quantization_config
from vllm.model_executor.layers.quantization.base_config import QuantizationConfig, QuantizeMethodBase
from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding

from ouzel.errors import CheckpointError, ConfigError
from ouzel.quantization.groups import FORMAT, GROUPS, group_size
from ouzel.quantization.packed_weight import DEFAULT_KERNEL, PackedWeight, kernel, multiply
from ouzel.quantization.portable import split_codes

__all__ = ["W4A16Config", "W4A16Method"]

#: as vLLM names the parts of a merged layer of queries, keys and values
_ATTENTION = {"q": 0, "k": 1, "v": 2}


@register_quantization_config(FORMAT)
class W4A16Config(QuantizationConfig):
    """What config.json, or the stage, says of the weights."""

    def __init__(self, most: int, *, at_load: bool, kernel_name: str) -> None:
        """:param most: inputs that share a scale; fewer where a layer's width demands it

        :raises ConfigError: when there is no such group, or no such kernel
        """
        super().__init__()
        if most not in GROUPS:
            raise ConfigError(f"quantization_config.group_size is {most!r}; expected one of {GROUPS}")
        self.most = most
        self.at_load = at_load
        self.kernel_name = kernel(kernel_name).name

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> W4A16Config:
        """:raises ConfigError: when it says what can't be"""
        return cls(
            cls.get_from_keys(config, ["group_size"]),
            at_load=bool(config.get("at_load", False)),
            kernel_name=config.get("kernel", DEFAULT_KERNEL),
        )

    @classmethod
    def get_name(cls) -> str:
        return FORMAT

    @classmethod
    def get_supported_act_dtypes(cls) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float32]

    @classmethod
    def get_min_capability(cls) -> int:
        return 0

    @staticmethod
    def get_config_filenames() -> list[str]:
        return []

    def get_quant_method(self, layer: Any, prefix: str) -> QuantizeMethodBase | None:
        if isinstance(layer, LinearBase | VocabParallelEmbedding):
            return W4A16Method(self, prefix)
        return None


class W4A16Method(QuantizeMethodBase):
    """One layer's weight: linear, embedding or head."""

    def __init__(self, config: W4A16Config, prefix: str) -> None:
        self._config = config
        self._prefix = prefix
        #: rows that came, of each tensor that is wanted
        self._stored: dict[str, int] = {}

    def create_weights(
        self,
        layer: Any,
        input_size_per_partition: int,
        output_partition_sizes: list[int],
        input_size: int,
        output_size: int,
        params_dtype: torch.dtype,
        **attributes: Any,
    ) -> None:
        """Room in four bits, and a name for each tensor of the checkpoint that takes no room.

        :raises ConfigError: when the layer is split among devices, or no group divides its width
        """
        if (input_size_per_partition, sum(output_partition_sizes)) != (input_size, output_size):
            raise ConfigError(f"{FORMAT} runs on one device; {self._prefix} is split among several")
        group = group_size(input_size, self._config.most)
        weight = PackedWeight.empty(output_size, input_size, group, self._config.kernel_name)
        layer.register_buffer("packed", weight.packed, persistent=False)
        layer.register_buffer("packed_scales", weight.scales, persistent=False)
        layer.packed_weight = weight
        stores: dict[str, tuple[int, Callable[[int, Tensor], None]]]
        if self._config.at_load:
            stores = {"weight": (input_size, weight.quantize)}
        else:
            stores = {
                "qweight": (input_size // 2, lambda first, part: weight.store_codes(first, split_codes(part))),
                "scales": (input_size // group, weight.store_scale),
                "offsets": (input_size // group, weight.store_offset),
            }
        for name, (columns, store) in stores.items():
            # On the meta device: vLLM finds its name, and what comes under it is stored elsewhere.
            place: Any = nn.Parameter(torch.empty(0, columns, device="meta"), requires_grad=False)
            place.weight_loader = self._loader(name, columns, store, _starts(output_partition_sizes))
            layer.register_parameter(name, place)
            self._stored[name] = 0

    def _loader(
        self, name: str, columns: int, store: Callable[[int, Tensor], None], starts: list[int]
    ) -> Callable[..., None]:
        def load(place: nn.Parameter, part: Tensor, shard: str | int | None = None) -> None:
            number = 0 if shard is None else _ATTENTION[shard] if isinstance(shard, str) else shard
            first = starts[number]
            last = starts[-1] if shard is None else starts[number + 1]
            if part.ndim != 2 or part.shape[1] != columns or len(part) > last - first:
                raise CheckpointError(
                    f"{self._prefix}.{name} has shape {list(part.shape)}; expected [{last - first}, {columns}]"
                )
            store(first, part)
            self._stored[name] += len(part)

        return load

    def process_weights_after_loading(self, layer: Any) -> None:
        """:raises CheckpointError: when rows are missing"""
        # A tied head has none of its own, and a vocabulary is filled up to a multiple of 64.
        wanted = layer.org_vocab_size if isinstance(layer, VocabParallelEmbedding) else layer.packed_weight.rows
        for name, found in self._stored.items():
            if found != wanted:
                raise CheckpointError(f"{self._prefix}.{name} has {found} rows in the checkpoint; expected {wanted}")
            delattr(layer, name)
        if self._stored:
            layer.packed_scales[:, wanted:] = 0
        self._stored.clear()

    def tie_weights(self, layer: Any, embed_tokens: Any) -> Any:
        """One copy for embedding and head."""
        for name in self._stored:
            delattr(layer, name)
        self._stored.clear()
        layer.packed, layer.packed_scales = embed_tokens.packed, embed_tokens.packed_scales
        layer.packed_weight = embed_tokens.packed_weight
        return layer

    def apply(self, layer: Any, x: Tensor, bias: Tensor | None = None) -> Tensor:
        # x: [T, K] -> [T, N]
        weight = layer.packed_weight
        y = torch.ops.ouzel.w4a16_linear(x, layer.packed, layer.packed_scales, weight.rows, weight.kernel)
        return y if bias is None else y + bias

    def embedding(self, layer: Any, ids: Tensor) -> Tensor:
        # ids: [...] int64 -> [..., K]
        found = torch.ops.ouzel.w4a16_lookup(ids, layer.packed, layer.packed_scales, layer.packed_weight.kernel)
        return found.to(layer.params_dtype)


def _starts(sizes: list[int]) -> list[int]:
    """The first row of each part of a merged layer, and where the last one ends."""
    return [sum(sizes[:number]) for number in range(len(sizes) + 1)]


def _linear(x: Tensor, packed: Tensor, scales: Tensor, rows: int, name: str) -> Tensor:
    # x: [T, K] -> [T, rows]
    if x.dtype == torch.bfloat16:
        return multiply(x, packed, scales, rows, name)
    return multiply(x.bfloat16(), packed, scales, rows, name).to(x.dtype)


def _linear_shape(x: Tensor, packed: Tensor, scales: Tensor, rows: int, name: str) -> Tensor:
    return x.new_empty(x.shape[0], rows)


def _lookup(ids: Tensor, packed: Tensor, scales: Tensor, name: str) -> Tensor:
    # ids: [...] int64 -> [..., K] bfloat16
    return PackedWeight(packed, scales, len(packed), name).lookup(ids).contiguous()


def _lookup_shape(ids: Tensor, packed: Tensor, scales: Tensor, name: str) -> Tensor:
    return scales.new_empty((*ids.shape, packed.shape[1] * 2))


# Defined by hand, as `spark.gate` says why.
for _signature, _do, _shape in (
    ("w4a16_linear(Tensor x, Tensor packed, Tensor scales, int rows, str name) -> Tensor", _linear, _linear_shape),
    ("w4a16_lookup(Tensor ids, Tensor packed, Tensor scales, str name) -> Tensor", _lookup, _lookup_shape),
):
    _name = f"ouzel::{_signature.partition('(')[0]}"
    torch.library.define(_name, f"({_signature.partition('(')[2]}")
    torch.library.impl(_name, "default", _do)
    torch.library.register_fake(_name, _shape)
