"""The edge profile's files for language models."""

from __future__ import annotations

import pytest

from ouzel.config import load_config


@pytest.mark.parametrize("model_type", ["llama", "spark2_5"])
def test_a_language_model_is_niced_and_reads_prompts_in_small_steps(model_type: str) -> None:
    llm = load_config(("qwen3_tts", model_type), environ={}).config.llm
    assert llm.model is None, "which one is served is said elsewhere"
    assert (llm.threads, llm.nice, llm.compile_cache_fix, llm.cpu_ir_ops) == (1, 5, True, False)
    assert llm.prefill_tokens <= 256 and llm.max_model_len is not None


def test_a_language_models_settings_can_be_said_like_all_others() -> None:
    environ = {
        "OUZEL_LLM__MODEL": "/models/some one",
        "OUZEL_LLM__MAX_NUM_SEQS": "2",
        "OUZEL_LLM__URL": "http://h:1/v1",
    }
    llm = load_config(("qwen3_tts", "llama"), environ=environ).config.llm
    assert (llm.model, llm.max_num_seqs, llm.url) == ("/models/some one", 2, "http://h:1/v1")
