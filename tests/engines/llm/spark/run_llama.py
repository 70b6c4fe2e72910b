"""What run_spark.py does, on llama.cpp; it wants `llama-cpp-python` (0.3.36) and nothing of ours.

stdin: a JSON object (`file`, `prompts`, `tokens`, `top`, `context`, `threads`). The last line of stdout: the answers by
prompt.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

F32 = 0  # as ggml counts its types


def answer(model: Any, prompt: list[int], tokens: int, top: int) -> dict[str, Any]:
    model.reset()
    ids: list[int] = []
    steps = []
    fed = prompt
    for _ in range(tokens):
        model.eval(fed)
        logprobs = last_logprobs(model)
        best = np.argsort(-logprobs)[:top]
        steps.append({int(id_): float(logprobs[id_]) for id_ in best})
        fed = [int(best[0])]
        ids += fed
    return {"ids": ids, "logprobs": steps}


def last_logprobs(model: Any) -> NDArray[np.float64]:
    row = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(model.ctx, -1), (model.n_vocab(),)).astype(np.float64)
    return row - row.max() - np.log(np.exp(row - row.max()).sum())


wish = json.load(sys.stdin)
llama = llama_cpp.Llama(
    wish["file"],
    n_ctx=wish["context"],
    n_threads=wish["threads"],
    n_threads_batch=wish["threads"],
    type_k=F32,
    type_v=F32,
    flash_attn=False,
    verbose=False,
)
found = {name: answer(llama, prompt, wish["tokens"], wish["top"]) for name, prompt in wish["prompts"].items()}
sys.stdout.write("\n" + json.dumps(found) + "\n")
