"""The engines of decode_bench.py, each the whole life of a process: load, then write and read as it is told."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PROMPT_TOKENS = 16

#: Of a prompt, and how many tokens to write: the moments of the first and the last one.
Write = Callable[[list[int], int], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Loaded:
    """An engine with its model."""

    vocabulary: int
    write: Write


def vllm(model: Path, settings: Mapping[str, str], threads: int) -> Loaded:
    """The stage's engine core, stepped as its loop steps it."""
    from ouzel.config import load_config
    from ouzel.engines.llm import build
    from ouzel.stages.language import LanguageRequest, LanguageSampling
    from ouzel.stats.timeline import InitTimeline
    from ouzel.tools.deployment import model_profile

    core = build(model, load_config((model_profile(model),), flags=settings).config, InitTimeline("llm"))

    def write(prompt: list[int], tokens: int) -> tuple[float, float]:
        sampling = LanguageSampling(temperature=0, max_tokens=tokens, ignore_eos=True)
        core.add(LanguageRequest(prompt_ids=tuple(prompt), sampling=sampling))
        done = []
        while core.has_work:
            # Not every token is text, and each step is one token.
            core.step()
            done.append(time.perf_counter())
        if len(done) > tokens + 1:  # the last one tells that all is over
            raise SystemExit(f"{len(done)} steps for {tokens} tokens: the prompt took more than one")
        return done[0], done[tokens - 1]

    return Loaded(json.loads((model / "config.json").read_text())["vocab_size"], write)


def llama_cpp(model: Path, settings: Mapping[str, str], threads: int) -> Loaded:
    from llama_cpp import Llama

    # The page cache is warm.
    with model.open("rb") as file:
        while file.read(1 << 24):
            pass
    longest = int(settings["llm.max_model_len"])
    llama = Llama(
        str(model),
        n_ctx=longest,
        n_batch=longest,
        n_ubatch=longest,
        n_threads=threads,
        n_threads_batch=threads,
        verbose=False,
    )

    def write(prompt: list[int], tokens: int) -> tuple[float, float]:
        llama.reset()
        # It knows no end of its own, so its tokens are counted.
        written = llama.generate(prompt, temp=0.0)
        done = [time.perf_counter() for _, _ in zip(range(tokens), written, strict=False)]
        return done[0], done[-1]

    return Loaded(llama.n_vocab(), write)


def memory(model: Path, settings: Mapping[str, str], threads: int) -> None:
    """No engine: the rate at which memory is read, a line for a line."""
    import torch
    from memory_use import read_rate

    torch.set_num_threads(threads)
    buffer = torch.ones(1 << 28)  # 1 GiB, which no cache holds
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps({"bytes_per_s": read_rate(buffer)}), flush=True)


def work(engine: str, model: Path, settings: Mapping[str, str], threads: int) -> None:
    """Be an arm: `[prompt tokens, written tokens]` a line in, the seconds to the first and of the others a line out."""
    if engine == "memory":
        memory(model, settings, threads)
        return
    loaded = {"vllm": vllm, "llama.cpp": llama_cpp}[engine](model, settings, threads)
    draw = np.random.default_rng(0)
    print("ready", flush=True)
    for line in sys.stdin:
        asked, tokens = json.loads(line)
        # Never the same prompt, or its KV were there already.
        prompt = draw.integers(10, loaded.vocabulary - 10, asked).tolist()
        begin = time.perf_counter()
        first, last = loaded.write(prompt, tokens)
        print(json.dumps({"first_s": first - begin, "others_s": last - first}), flush=True)
