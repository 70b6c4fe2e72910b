"""Spark-X2.5 on vLLM's layers. Modules are named as in the checkpoint, so that few names change in loading."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn
from vllm.compilation.decorators import support_torch_compile
from vllm.config import VllmConfig
from vllm.model_executor.layers.activation import GeluAndMul
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.layernorm import RMSNorm
from vllm.model_executor.layers.linear import MergedColumnParallelLinear, QKVParallelLinear, RowParallelLinear
from vllm.model_executor.layers.logits_processor import LogitsProcessor
from vllm.model_executor.layers.rotary_embedding import get_rope
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding
from vllm.model_executor.models.utils import AutoWeightsLoader, WeightsMapper

from ouzel.engines.llm.spark.config import SLIDING
from ouzel.engines.llm.spark.gate import HeadGate
from ouzel.errors import ConfigError

__all__ = ["SparkForCausalLM"]


class SparkAttention(nn.Module):
    """Attention of one layer: its own window and rotary, and a gate on each head."""

    def __init__(self, vllm_config: VllmConfig, number: int, prefix: str) -> None:
        super().__init__()
        model, quant = vllm_config.model_config, vllm_config.quant_config
        config = model.hf_config
        kind = config.layer_types[number]
        heads, kv_heads, size = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self._rows = [heads * size, kv_heads * size, kv_heads * size]
        self.q_k_v_proj = QKVParallelLinear(
            config.hidden_size, size, heads, kv_heads, bias=False, quant_config=quant, prefix=f"{prefix}.q_k_v_proj"
        )
        self.g_proj = HeadGate(config.hidden_size, heads)
        self.out_proj = RowParallelLinear(
            heads * size, config.hidden_size, bias=False, quant_config=quant, prefix=f"{prefix}.out_proj"
        )
        # As long as what is served: for the native context of a million tokens the tables take 618 MB.
        self.rotary_emb = get_rope(size, model.max_model_len, rope_parameters=config.rope_parameters[kind])
        self.attn = Attention(
            heads,
            size,
            size**-0.5,
            num_kv_heads=kv_heads,
            cache_config=vllm_config.cache_config,
            quant_config=quant,
            per_layer_sliding_window=config.sliding_window if kind == SLIDING else None,
            prefix=f"{prefix}.attn",
        )

    def forward(self, positions: Tensor, x: Tensor) -> Tensor:
        # positions: [T] int64, x: [T, H]
        qkv, _ = self.q_k_v_proj(x)
        q, k, v = qkv.split(self._rows, dim=-1)
        q, k = self.rotary_emb(positions, q, k)
        output, _ = self.out_proj(self.g_proj(x, self.attn(q, k, v)))
        return output


class SparkMLP(nn.Module):
    """down(gelu(gate(x)) · up(x)), with the exact gelu."""

    def __init__(self, vllm_config: VllmConfig, prefix: str) -> None:
        super().__init__()
        config, quant = vllm_config.model_config.hf_config, vllm_config.quant_config
        hidden, inner = config.hidden_size, config.intermediate_size
        self.gate_up_proj = MergedColumnParallelLinear(
            hidden, [inner, inner], bias=False, quant_config=quant, prefix=f"{prefix}.gate_up_proj"
        )
        self.down_proj = RowParallelLinear(inner, hidden, bias=False, quant_config=quant, prefix=f"{prefix}.down_proj")
        self.act = GeluAndMul(approximate="none")

    def forward(self, x: Tensor) -> Tensor:
        # x: [T, H]
        both, _ = self.gate_up_proj(x)
        output, _ = self.down_proj(self.act(both))
        return output


class SparkLayer(nn.Module):
    """One layer; the residual travels beside what the next norm adds to it."""

    def __init__(self, vllm_config: VllmConfig, number: int, prefix: str) -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        self.self_attn = SparkAttention(vllm_config, number, f"{prefix}.self_attn")
        self.mlp = SparkMLP(vllm_config, f"{prefix}.mlp")
        self.input_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, positions: Tensor, x: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        # positions: [T] int64, x and residual: [T, H]
        if residual is None:
            x, residual = self.input_layernorm(x), x
        else:
            x, residual = self.input_layernorm(x, residual)
        x, residual = self.post_attention_layernorm(self.self_attn(positions, x), residual)
        return self.mlp(x), residual


# Named here: vLLM infers them from annotations, which are strings in this file.
@support_torch_compile(dynamic_arg_dims={"input_ids": 0, "positions": 0, "inputs_embeds": 0})
class SparkModel(nn.Module):
    """Token ids to the last hidden states."""

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        self.embedding = VocabParallelEmbedding(
            config.vocab_size,
            config.hidden_size,
            quant_config=vllm_config.quant_config,
            prefix=f"{prefix}.embedding",
        )
        self.layers = nn.ModuleList(
            SparkLayer(vllm_config, number, f"{prefix}.layers.{number}") for number in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self,
        input_ids: Tensor | None,
        positions: Tensor,
        intermediate_tensors: None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        # input_ids and positions: [T] int64, inputs_embeds: [T, H] in their stead
        x = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        residual = None
        for layer in self.layers:
            x, residual = layer(positions, x, residual)
        x, _ = self.norm(x, residual)
        return x


class SparkForCausalLM(nn.Module):
    """What vLLM builds for `Spark2_5ForCausalLM`.

    :raises ConfigError: when the model is to be split among devices
    """

    # The checkpoint holds gate and up apart, and Q, K and V in one, in that order, which vLLM's linear takes as it is.
    packed_modules_mapping = {"q_k_v_proj": ["q_k_v_proj"], "gate_up_proj": ["gate_proj", "up_proj"]}
    hf_to_vllm_mapper = WeightsMapper(
        orig_to_new_stacked={".gate_proj": (".gate_up_proj", 0), ".up_proj": (".gate_up_proj", 1)}
    )

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        if (devices := vllm_config.parallel_config.world_size) != 1:
            raise ConfigError(f"Spark-X2.5 runs on one device, asked for {devices}")
        config = vllm_config.model_config.hf_config
        prefix = f"{prefix}." if prefix else ""
        self.model = SparkModel(vllm_config=vllm_config, prefix=f"{prefix}model")
        self.lm_head = ParallelLMHead(
            config.vocab_size,
            config.hidden_size,
            quant_config=vllm_config.quant_config,
            prefix=f"{prefix}lm_head",
        )
        if config.tie_word_embeddings:
            self.lm_head = self.lm_head.tie_weights(self.model.embedding)
        self.logits_processor = LogitsProcessor(config.vocab_size)

    def embed_input_ids(self, input_ids: Tensor) -> Tensor:
        # input_ids: [T] int64
        return self.model.embedding(input_ids)

    def forward(
        self,
        input_ids: Tensor | None,
        positions: Tensor,
        intermediate_tensors: None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        # input_ids and positions: [T] int64
        return self.model(input_ids, positions, intermediate_tensors, inputs_embeds)

    def compute_logits(self, hidden_states: Tensor) -> Tensor | None:
        # hidden_states: [N, H], the rows that are sampled
        return self.logits_processor(self.lm_head, hidden_states)

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
        """Fill the parameters from the published names, and say which were filled."""
        return AutoWeightsLoader(self).load_weights(weights, mapper=self.hf_to_vllm_mapper)
