"""A checkpoint folder on the language stage's engine, uncompiled, as its config.json and the settings say."""

from __future__ import annotations

from pathlib import Path

from ouzel.config import load_config
from ouzel.engines.llm import build
from ouzel.stats.timeline import InitTimeline
from ouzel.tools.deployment import model_profile
from ouzel.tools.fidelity.answers import Answers, Wish, serve

__all__ = ["answer"]

#: vLLM's block of KV on a CPU, in tokens
_BLOCK = 128


def answer(wish: Wish) -> Answers:
    """:raises OuzelError: when the folder can't be served"""
    folder = Path(wish.model)
    settings = {
        "llm.dtype": "bfloat16",
        "llm.eager": "true",
        "llm.threads": str(wish.threads),
        "llm.max_num_seqs": "1",
        "llm.max_model_len": str(-(-wish.longest // _BLOCK) * _BLOCK),
        # a window is one step
        "llm.prefill_tokens": str(max([16, *map(len, wish.windows)])),
        **wish.settings,
    }
    core = build(folder, load_config((model_profile(folder),), flags=settings).config, InitTimeline("llm"))
    from ouzel.engines.llm.scoring import Scorer

    scorer = Scorer(core)
    return Answers(
        [scorer.logprobs(window)[wish.context - 1 :] for window in wish.windows],
        [scorer.greedy(prompt, wish.tokens, wish.stops) for prompt in wish.prompts],
    )


if __name__ == "__main__":
    serve(answer)
