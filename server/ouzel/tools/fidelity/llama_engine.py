"""A GGUF on llama.cpp, by way of llama-cpp-python."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ouzel.errors import ConfigError
from ouzel.tools.fidelity.answers import Answers, Wish, serve

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["answer", "scored"]


def answer(wish: Wish) -> Answers:
    """:raises ConfigError: when llama-cpp-python is missing"""
    try:
        llama_cpp = importlib.import_module("llama_cpp")
    except ImportError as error:
        raise ConfigError("a GGUF needs llama-cpp-python: pip install llama-cpp-python", param="gguf") from error
    model = llama_cpp.Llama(
        wish.model,
        n_ctx=wish.longest,
        n_batch=wish.longest,
        n_threads=wish.threads,
        n_threads_batch=wish.threads,
        logits_all=True,
        verbose=False,
    )
    return Answers(
        [_logprobs(model, window, wish.context) for window in wish.windows],
        [_greedy(model, prompt, wish.tokens, wish.stops) for prompt in wish.prompts],
    )


def scored(logits: NDArray[np.float32], ids: Sequence[int]) -> list[float]:
    """Of each token the natural logarithm of its probability."""
    # logits: [T, V] float32, of the token before each
    rows = logits.astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    chosen = rows[np.arange(len(ids)), list(ids)] - np.log(np.exp(rows).sum(axis=1))
    return [float(value) for value in chosen]


def _logprobs(model: Any, window: Sequence[int], context: int) -> list[float]:
    model.reset()
    model.eval(list(window))
    return scored(model.scores[context - 1 : len(window) - 1], window[context:])


def _greedy(model: Any, prompt: Sequence[int], tokens: int, stops: Sequence[int]) -> list[int]:
    model.reset()
    fed = list(prompt)
    made: list[int] = []
    while len(made) < tokens:
        model.eval(fed)
        made.append(int(np.argmax(model.scores[model.n_tokens - 1])))
        if made[-1] in stops:
            break
        fed = made[-1:]
    return made


if __name__ == "__main__":
    serve(answer)
