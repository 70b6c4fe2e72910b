"""Runs checkpoints on vLLM in this process, one after the other; the tests start it as a process of its own.

stdin: a JSON list of runs (`folder`, `prompts` as lists of token ids by name, `tokens` and `top`
log-probabilities to make of each, `eager`, `prefill_tokens`, `context`).
The last line of stdout: for each run the window of every layer, and by prompt the greedy ids with their top
log-probabilities.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any

os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1"}
# pip brings builds of them that don't match; an import of one dies half way.
sys.modules |= dict.fromkeys(("torchaudio", "torchcodec", "torchvision"))  # type: ignore[arg-type]

from vllm import LLM, SamplingParams  # noqa: E402  # after what must precede it
from vllm.distributed.parallel_state import cleanup_dist_env_and_memory  # noqa: E402

from ouzel.engines.llm.arguments import IR_PROVIDER  # noqa: E402
from ouzel.engines.llm.ir_ops import register_ir_ops  # noqa: E402


def run(wish: dict[str, Any]) -> dict[str, Any]:
    if fused_norms := wish.get("fused_norms", False):
        register_ir_ops()
    engine = LLM(
        model=wish["folder"],
        skip_tokenizer_init=True,
        dtype="float32",
        enforce_eager=wish["eager"],
        max_model_len=wish["context"],
        max_num_seqs=4,
        max_num_batched_tokens=wish["prefill_tokens"],
        kv_cache_memory_bytes=wish.get("kv_cache_bytes", 128 << 20),
        distributed_executor_backend="uni",
        enable_prefix_caching=False,
        ir_op_priority=dict.fromkeys(("rms_norm", "fused_add_rms_norm"), [IR_PROVIDER]) if fused_norms else {},
    )
    greedy = SamplingParams(
        temperature=0, max_tokens=wish["tokens"], logprobs=wish["top"], ignore_eos=True, detokenize=False
    )
    prompts = [{"prompt_token_ids": ids} for ids in wish["prompts"].values()]
    outputs = engine.generate(prompts, greedy, use_tqdm=False)
    layers = engine.llm_engine.vllm_config.compilation_config.static_forward_context
    return {
        "windows": [layer.sliding_window for layer in layers.values()],
        "made": {
            name: {
                "ids": list(output.outputs[0].token_ids),
                "logprobs": [{id_: one.logprob for id_, one in step.items()} for step in output.outputs[0].logprobs],
            }
            for name, output in zip(wish["prompts"], outputs, strict=True)
        },
    }


def main() -> None:
    found = []
    for wish in json.load(sys.stdin):
        found.append(run(wish))
        gc.collect()
        cleanup_dist_env_and_memory()
    sys.stdout.write("\n" + json.dumps(found) + "\n")


main()
