from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import tiny_spark

from ouzel.errors import CheckpointError

pytestmark = pytest.mark.llm  # transformers comes with vLLM

SLIDING, FULL = "sliding_attention", "full_attention"


def read(tmp_path: Path, **changes: Any) -> Any:
    """The config of a tiny checkpoint as transformers reads it from its folder; None leaves a field out."""
    from ouzel.engines.llm.spark.config import SparkConfig

    folder = tiny_spark.write_tiny(tmp_path / "spark", layers=1)
    content = tiny_spark.config(folder) | {"num_hidden_layers": 5, "layer_types": None} | changes
    kept = {name: value for name, value in content.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(kept))
    return SparkConfig.from_pretrained(folder)


def test_what_a_checkpoint_says_is_read(tmp_path: Path) -> None:
    config = read(tmp_path, layer_types=[FULL, SLIDING, SLIDING, FULL, SLIDING], tie_word_embeddings=True)
    assert config.layer_types == [FULL, SLIDING, SLIDING, FULL, SLIDING]
    assert config.rope_parameters[FULL]["rope_theta"] == 5000000
    assert config.rope_parameters[SLIDING]["partial_rotary_factor"] == 1.0
    assert (config.hidden_size, config.sliding_window, config.tie_word_embeddings) == (256, 32, True)


def test_what_it_leaves_out_is_as_published(tmp_path: Path) -> None:
    config = read(tmp_path, rope_parameters=None, tie_word_embeddings=None, sliding_window=None)
    assert config.layer_types == [SLIDING, SLIDING, SLIDING, FULL, SLIDING]
    assert config.rope_parameters[FULL]["partial_rotary_factor"] == 0.25
    assert config.rope_parameters[SLIDING]["rope_theta"] == 10000
    assert (config.sliding_window, config.tie_word_embeddings) == (512, False)


def test_a_kind_of_layer_that_there_is_none_of_turns_nothing(tmp_path: Path) -> None:
    config = read(tmp_path, layer_types=[SLIDING] * 5)
    assert config.rope_parameters == {
        SLIDING: {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 1.0}
    }


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"layer_types": [FULL]}, "layer_types has 1 entries, num_hidden_layers is 5"),
        ({"layer_types": [FULL] * 4 + ["linear_attention"]}, "layer_types has .'linear_attention'."),
        ({"rope_parameters": {FULL: {"rope_theta": 1e4}}}, "rope_parameters has no sliding_attention"),
        ({"headwise_attn_output_gate": False}, "headwise_attn_output_gate is false"),
    ],
)
def test_what_the_model_cannot_do_is_said(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(CheckpointError, match=complaint):
        read(tmp_path, **changes)


def test_vllm_finds_it_by_itself() -> None:
    (ours,) = entry_points(group="vllm.general_plugins", name="ouzel_spark")
    assert ours.value == "ouzel.engines.llm.spark:register"
