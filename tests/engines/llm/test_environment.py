from __future__ import annotations

from ouzel.engines.llm.environment import prepare_environment


def test_vllm_is_one_process_says_nothing_and_keeps_to_our_cache_size() -> None:
    environ = {"VLLM_CPU_KVCACHE_SPACE": "40", "HF_HUB_OFFLINE": "0", "VLLM_LOGGING_LEVEL": "DEBUG"}
    prepare_environment(environ)
    assert "VLLM_CPU_KVCACHE_SPACE" not in environ
    assert (environ["VLLM_ENABLE_V1_MULTIPROCESSING"], environ["HF_HUB_OFFLINE"]) == ("0", "1")
    assert environ["VLLM_NO_USAGE_STATS"] == "1"
    assert environ["VLLM_LOGGING_LEVEL"] == "DEBUG", "whoever looks for a fault may"
