"""How far our served talker lies from the official answers: the figures of docs/fidelity.md.

python tests/oracle/compare_talker.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ouzel.models.qwen3_tts.checkpoint import TalkerSide
from ouzel.models.qwen3_tts.kv_cache import KVCache
from ouzel.models.qwen3_tts.sampler import Sampler
from tiny_prompts import CASES, Case
from tiny_speech import goldens, greedy, side, spec, text_row


@dataclass(frozen=True)
class Figures:
    """Largest differences of one case, and how many of its codes are equal."""

    prompt: float
    logprob: float
    equal_codes: int
    codes: int

    def __str__(self) -> str:
        return f"prompt {self.prompt:.1e}   logprobs {self.logprob:.1e}   codes {self.equal_codes} of {self.codes}"


@torch.inference_mode()
def compare(speaker: TalkerSide, case: Case, official: Mapping[str, Tensor]) -> Figures:
    """Follow the official codes frame by frame on the serving path, and see what ours would have been."""
    codes = official["codes"].long()
    prompt = speaker.prompts().build(spec(case))
    cache = KVCache(speaker.config.talker, len(prompt.rows) + len(codes))
    sampler = Sampler(greedy(minimum=len(codes) + 1), speaker.config.talker)
    hidden = speaker.talker.prefill(prompt.rows, cache)[None]
    errors, own = [torch.zeros(())], torch.empty_like(codes)
    for frame, given in enumerate(codes):
        logits = speaker.talker.logits(hidden)
        errors.append(_error(logits[0], official["talker_ids"][frame], official["talker_logprobs"][frame]))
        own[frame, 0] = sampler.sample_c0(logits[0])

        def follow(logits: Tensor, group: int, frame: int = frame, given: Tensor = given) -> Tensor:
            own[frame, group] = logits.argmax()
            if frame < len(official["predictor_ids"]):
                ids, logprobs = (official[f"predictor_{part}"][frame, group - 1] for part in ("ids", "logprobs"))
                errors.append(_error(logits[0], ids, logprobs))
            return given[group, None]

        speaker.predictor.predict(hidden, given[:1], follow, speaker.talker)
        row = speaker.predictor.embed_sum(given[None], speaker.talker) + text_row(prompt, frame)
        hidden = speaker.talker.decode(row, [cache])
    return Figures(
        prompt=float((prompt.rows - official["rows"]).abs().max()),
        logprob=float(torch.stack(errors).max()),
        equal_codes=int((own == codes).sum()),
        codes=codes.numel(),
    )


def _error(logits: Tensor, ids: Tensor, logprobs: Tensor) -> Tensor:
    return (logits.log_softmax(-1)[ids.long()] - logprobs).abs().max()


def answers(name: str) -> dict[str, Tensor]:
    return {key.removeprefix(f"{name}."): value for key, value in goldens().items() if key.startswith(f"{name}.")}


if __name__ == "__main__":
    for name, case in CASES.items():
        print(f"{name:24}{compare(side(case.size, case.model_type), case, answers(name))}")
