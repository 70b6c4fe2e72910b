"""Reads prompts with checkpoints on vLLM itself, one after the other; the tests start it as a process of its own.

stdin: a JSON object of `folders` and `ids`. The last line of stdout: for each folder the names of the kernels that its
four-bit layers run on, the output head's too, and the log-probability of each token after those before it.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any

os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}
# pip brings builds of them that don't match; an import of one dies half way.
sys.modules |= dict.fromkeys(("torchaudio", "torchcodec", "torchvision", "triton"))  # type: ignore[arg-type]

from torch import nn  # noqa: E402  # after what must precede it
from vllm import LLM, ModelRegistry, SamplingParams  # noqa: E402
from vllm.distributed.parallel_state import cleanup_dist_env_and_memory  # noqa: E402


def run(folder: str, ids: list[int]) -> dict[str, Any]:
    engine = LLM(
        model=folder,
        skip_tokenizer_init=True,
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=128,
        max_num_seqs=1,
        kv_cache_memory_bytes=64 << 20,
        distributed_executor_backend="uni",
        enable_prefix_caching=False,
    )
    wish = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0, detokenize=False)
    told = engine.generate([{"prompt_token_ids": ids}], wish, use_tqdm=False)[0].prompt_logprobs
    found = [ranked[token].logprob for token, ranked in zip(ids[1:], told[1:], strict=True)]
    return {"kernels": engine.apply_model(kernels)[0], "logprobs": found}


def kernels(model: nn.Module) -> dict[str, str]:
    methods = {name: getattr(module, "quant_method", None) for name, module in model.named_modules()}
    found = {name: getattr(method, "kernel", None) for name, method in methods.items()}
    return {name: type(kernel).__name__ for name, kernel in found.items() if kernel is not None}


def main() -> None:
    wish = json.load(sys.stdin)
    # Here and now: where it isn't known yet, vLLM looks at it in a process in which the packages above aren't hidden.
    for architecture in wish["architectures"]:
        ModelRegistry.register_model(architecture, ModelRegistry.models[architecture].load_model_cls())
    found = []
    for folder in wish["folders"]:
        found.append(run(folder, wish["ids"]))
        gc.collect()
        cleanup_dist_env_and_memory()
    sys.stdout.write("\n" + json.dumps(found) + "\n")


main()
