"""What four bits do to a voice: how far its distributions are from those of its own weights, on its own speech.

The voice speaks a few sentences with the weights that it has. Then the talker, its layers in four bits, is given the
same frames, and at each step the two say how likely each code is. So nothing that was drawn differently hides what the
weights do. Word error rates are measured by training/evaluate.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from ouzel.errors import RequestError
from ouzel.models.qwen3_tts.checkpoint import TalkerSide, load_talker_side
from ouzel.models.qwen3_tts.kv_cache import KVCache
from ouzel.models.qwen3_tts.prompt import Prompt
from ouzel.models.qwen3_tts.prompt_spec import AUTO, PromptSpec
from ouzel.models.qwen3_tts.sampler import Sampler, SamplingParams
from ouzel.quantization.groups import GROUPS
from ouzel.voices import DEFAULT_VOICE, find_voice

__all__ = ["Divergence", "Judged", "divergence", "judge", "main", "speak"]

SENTENCES = (
    "The river keeps its own time, and so does a sentence that is spoken while it is still being made.",
    "She bought three oranges and a loaf of bread for four dollars and twenty cents.",
    "Where were you on the morning when the bridge was closed?",
    "A kettle that is watched will boil all the same, only nobody believes it.",
    "Please leave your coat by the door, and your questions with the clerk.",
    "Thunder rolled over the hills, and the dogs went under the table.",
)


@dataclass(frozen=True, slots=True)
class Judged:
    """What a talker thinks of given frames."""

    c0: Tensor  # [F, V] float32, log-probabilities of codebook 0
    groups: Tensor  # [F, G-1, V'] float32, log-probabilities of the other codebooks


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """Of other weights from the voice's own, on average over frames; nats."""

    #: bfloat16, or four bits by the largest group, as in w4a16-g64
    weights: str
    frames: int
    #: Kullback-Leibler divergence of codebook 0
    c0: float
    #: of the other codebooks, on average
    groups: float
    #: how often the likeliest code of codebook 0 is the same
    same_c0: float
    same_groups: float


@torch.inference_mode()
def speak(side: TalkerSide, spec: PromptSpec, *, seed: int, most: int) -> Tensor:
    """The frames of a sentence, [F, G] int64, drawn as the voice draws them.

    :param most: frames at most
    """
    sampler = Sampler(SamplingParams.of(side.generation, seed=seed), side.config.talker)
    prompt, cache = _begin(side, spec, most)
    hidden = side.talker.prefill(prompt.rows, cache)[None]
    frames: list[Tensor] = []
    while len(frames) < most:
        code = sampler.sample_c0(side.talker.logits(hidden)[0])
        if code == side.config.talker.ids.eos:
            break
        drawn = side.predictor.predict(
            hidden,
            torch.tensor([code]),
            lambda logits, _: torch.tensor([sampler.sample_group(logits[0])]),
            side.talker,
        )
        frames.append(drawn[0])
        hidden = side.talker.decode(_row(side, prompt, frames[-1], len(frames) - 1), [cache])
    return torch.stack(frames)


@torch.inference_mode()
def judge(side: TalkerSide, spec: PromptSpec, frames: Tensor) -> Judged:
    """How likely each code was, step by step, the frames before it being these."""
    # frames: [F, G] int64
    prompt, cache = _begin(side, spec, len(frames))
    hidden = side.talker.prefill(prompt.rows, cache)[None]
    c0, groups = [], []
    for place, frame in enumerate(frames):
        c0.append(side.talker.logits(hidden)[0].float().log_softmax(-1))
        others: list[Tensor] = []

        def given(logits: Tensor, group: int, frame: Tensor = frame, others: list[Tensor] = others) -> Tensor:
            others.append(logits[0].float().log_softmax(-1))
            return frame[group : group + 1]

        side.predictor.predict(hidden, frame[:1], given, side.talker)
        groups.append(torch.stack(others))
        hidden = side.talker.decode(_row(side, prompt, frame, place), [cache])
    return Judged(torch.stack(c0), torch.stack(groups))


def divergence(whole: Sequence[Judged], packed: Sequence[Judged], weights: str) -> Divergence:
    """Over all sentences together."""
    pairs = list(zip(whole, packed, strict=True))
    c0 = torch.cat([_kl(one.c0, other.c0) for one, other in pairs])
    groups = torch.cat([_kl(one.groups, other.groups) for one, other in pairs])
    same_c0 = torch.cat([one.c0.argmax(-1) == other.c0.argmax(-1) for one, other in pairs])
    same_groups = torch.cat([one.groups.argmax(-1) == other.groups.argmax(-1) for one, other in pairs])
    return Divergence(
        weights=weights,
        frames=len(c0),
        c0=float(c0.mean()),
        groups=float(groups.mean()),
        same_c0=float(same_c0.float().mean()),
        same_groups=float(same_groups.float().mean()),
    )


def _kl(whole: Tensor, packed: Tensor) -> Tensor:
    # [..., V] log-probabilities -> [...] nats
    return (whole.exp() * (whole - packed)).sum(-1)


def _begin(side: TalkerSide, spec: PromptSpec, frames: int) -> tuple[Prompt, KVCache]:
    prompt = side.prompts().build(spec)
    return prompt, KVCache(side.config.talker, len(prompt.rows) + frames, prompt.rows.dtype)


def _row(side: TalkerSide, prompt: Prompt, frame: Tensor, place: int) -> Tensor:
    # frame: [G] int64 -> [1, H], the talker's next row
    text = prompt.trailing[place] if place < len(prompt.trailing) else prompt.pad
    return side.predictor.embed_sum(frame[None], side.talker) + text


def _as_itself(side: TalkerSide, text: str) -> PromptSpec:
    """As a request that names neither language nor speaker."""
    extras, languages = side.config.extras, side.config.spoken_languages
    return PromptSpec(
        text=text,
        language=languages[0] if len(languages) == 1 else AUTO,
        speaker=None if extras is None else extras.default_speaker,
    )


def main(
    voice: Annotated[str, typer.Argument(help="A carried voice or a checkpoint folder.")] = DEFAULT_VOICE,
    groups: Annotated[list[int] | None, typer.Option("--group", help="Inputs that share a scale, at most.")] = None,
    sentences: Annotated[int, typer.Option(min=1, max=len(SENTENCES))] = len(SENTENCES),
    frames: Annotated[int, typer.Option(min=1, help="The most of a sentence.")] = 400,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure what four bits do to a voice's distributions, on its own speech."""
    if wrong := set(groups or ()) - set(GROUPS):
        raise RequestError(f"group {wrong.pop()} is not one of {', '.join(map(str, GROUPS))}", param="group")
    folder = find_voice(voice)
    whole = load_talker_side(folder)
    specs = [_as_itself(whole, text) for text in SENTENCES[:sentences]]
    spoken = [speak(whole, spec, seed=seed, most=frames) for seed, spec in enumerate(specs)]
    reference = [judge(whole, spec, said) for spec, said in zip(specs, spoken, strict=True)]
    found = []
    print(f"{'weights':<16}{'frames':>8}{'codebook 0':>14}{'others':>10}{'same':>8}{'same':>8}   nats a code")
    # How far rounding alone goes, then what four bits add to it.
    for group in (None, *(groups or GROUPS)):
        packed = load_talker_side(folder, torch.bfloat16) if group is None else load_talker_side(folder, group=group)
        judged = [judge(packed, spec, said) for spec, said in zip(specs, spoken, strict=True)]
        one = divergence(reference, judged, "bfloat16" if group is None else f"w4a16-g{group}")
        found.append(one)
        same = f"{one.same_c0:8.1%}{one.same_groups:8.1%}"
        print(f"{one.weights:<16}{one.frames:>8}{one.c0:14.5f}{one.groups:10.5f}{same}", flush=True)
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
