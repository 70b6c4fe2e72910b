"""The published configuration of a Spark-X2.5 checkpoint."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig

from ouzel.errors import CheckpointError

__all__ = ["FULL", "SLIDING", "SparkConfig"]

SLIDING, FULL = "sliding_attention", "full_attention"


class SparkConfig(PreTrainedConfig):
    """config.json with `model_type` spark2_5; what it leaves out is as in the 1.7B.

    :raises CheckpointError: when a field says what the model can't do
    """

    model_type = "spark2_5"

    vocab_size: int = 131072
    hidden_size: int = 2048
    intermediate_size: int = 6656
    num_hidden_layers: int = 28
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 256
    sliding_window: int = 512
    #: Three sliding layers, then a full one, where the checkpoint doesn't say.
    layer_types: list[str] | None = None
    #: By layer type: `rope_theta` and `partial_rotary_factor`.
    rope_parameters: dict[str, Any] | None = None
    headwise_attn_output_gate: bool = True
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 8192
    tie_word_embeddings: bool = False
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None

    def __post_init__(self, **others: Any) -> None:
        if self.layer_types is None:
            self.layer_types = [FULL if number % 4 == 3 else SLIDING for number in range(self.num_hidden_layers)]
        if self.rope_parameters is None:
            self.rope_parameters = {
                FULL: {"rope_theta": 5000000, "partial_rotary_factor": 0.25},
                SLIDING: {"rope_theta": 10000, "partial_rotary_factor": 1.0},
            }
        self._check(self.layer_types, self.rope_parameters)
        # Those in use, and whole: vLLM asks each for its type, and transformers fills in those of the layers alone.
        used = sorted(set(self.layer_types))
        self.rope_parameters = {kind: {"rope_type": "default", **self.rope_parameters[kind]} for kind in used}
        super().__post_init__(**others)

    def _check(self, kinds: list[str], ropes: dict[str, Any]) -> None:
        if len(kinds) != self.num_hidden_layers:
            raise CheckpointError(
                f"config.json: layer_types has {len(kinds)} entries, num_hidden_layers is {self.num_hidden_layers}"
            )
        if unknown := set(kinds) - {SLIDING, FULL}:
            raise CheckpointError(f"config.json: layer_types has {sorted(unknown)}, known are {SLIDING} and {FULL}")
        if missing := set(kinds) - ropes.keys():
            raise CheckpointError(f"config.json: rope_parameters has no {', '.join(sorted(missing))}")
        if not self.headwise_attn_output_gate:
            raise CheckpointError("config.json: headwise_attn_output_gate is false, Spark-X2.5 has the gate")
