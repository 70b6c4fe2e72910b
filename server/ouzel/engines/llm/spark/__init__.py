"""Spark-X2.5 for vLLM: a hybrid decoder that has no implementation there."""

from __future__ import annotations

__all__ = ["register"]


def register() -> None:
    """Make Spark and four-bit weights known to transformers and vLLM.

    The entry point `vllm.general_plugins`, called once in each process that uses vLLM.
    """
    from transformers import AutoConfig
    from vllm import ModelRegistry

    import ouzel.engines.llm.w4a16  # noqa: F401  # registers itself
    from ouzel.engines.llm.spark.config import SparkConfig
    from ouzel.engines.llm.spark.model import SparkForCausalLM

    AutoConfig.register(SparkConfig.model_type, SparkConfig, exist_ok=True)
    # The class, not its name: a name is inspected in another process, which imports vLLM again and takes as long.
    ModelRegistry.register_model("Spark2_5ForCausalLM", SparkForCausalLM)
