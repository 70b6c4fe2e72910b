"""Our talker over the tiny checkpoints, loaded the one real way, and loops that speak with it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from ouzel.models.qwen3_tts.checkpoint import TalkerSide, load_talker_side
from ouzel.models.qwen3_tts.config import load_config
from ouzel.models.qwen3_tts.predictor import CodePredictor
from ouzel.models.qwen3_tts.prompt import Prompt, PromptSpec, Reference
from ouzel.models.qwen3_tts.sampler import Sampler, SamplingParams
from ouzel.models.qwen3_tts.talker import KVCache, Talker
from ouzel.models.qwen3_tts.weights import fill, load_tensors
from tiny_prompts import REF_TEXT, TEXT, Case, reference_codes, speaker_vector
from tiny_talker import write_checkpoint


@lru_cache(maxsize=1)
def goldens() -> dict[str, Tensor]:
    return load_file(Path(__file__).parent / "golden" / "talker.safetensors")


@cache
def side(size: str, model_type: str) -> TalkerSide:
    with tempfile.TemporaryDirectory() as folder:
        return load_talker_side(write_checkpoint(Path(folder), size, model_type))


def trainable(size: str, model_type: str) -> tuple[Talker, CodePredictor]:
    """Talker and predictor as they are trained: nothing fused, and nobody else's."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_checkpoint(Path(temporary), size, model_type)
        config = load_config(folder).talker
        talker, predictor = Talker(config), CodePredictor(config.predictor)
        own = "talker.code_predictor."
        fill(talker, load_tensors(folder, "talker.", without=(own,)), source="tiny", dtype=torch.float32)
        fill(predictor, load_tensors(folder, own), source="tiny", dtype=torch.float32)
    return talker, predictor


def spec(case: Case, text: str = TEXT) -> PromptSpec:
    vector = torch.from_numpy(speaker_vector())
    reference = None
    if case.frames is not None:
        reference = Reference(REF_TEXT, torch.from_numpy(reference_codes(case.frames)), vector)
    return PromptSpec(
        text=text,
        language=case.language,
        speaker=case.speaker,
        speaker_embedding=vector if case.model_type == "base" and reference is None else None,
        reference=reference,
        instruct=case.instruct,
        streaming_layout=case.streaming,
    )


def greedy(*, minimum: int) -> SamplingParams:
    return SamplingParams(do_sample=False, sub_do_sample=False, min_frames=minimum)


@dataclass
class Stream:
    """One request on its way: what an engine keeps of it."""

    prompt: Prompt
    sampler: Sampler
    cache: KVCache
    hidden: Tensor
    frames: list[Tensor] = field(default_factory=list)


def start(speaker: TalkerSide, prompt: Prompt, params: SamplingParams, *, capacity: int = 512) -> Stream:
    cache = KVCache(speaker.config.talker, capacity)
    hidden = speaker.talker.prefill(prompt.rows, cache)
    return Stream(prompt, Sampler(params, speaker.config.talker), cache, hidden)


@torch.inference_mode()
def step(speaker: TalkerSide, streams: list[Stream]) -> list[Stream]:
    """One frame of every stream in one batch; the streams that haven't come to their end."""
    logits = speaker.talker.logits(torch.stack([stream.hidden for stream in streams]))
    drawn = [stream.sampler.sample_c0(row) for stream, row in zip(streams, logits, strict=True)]
    eos = speaker.config.talker.ids.eos
    going = [(stream, c0) for stream, c0 in zip(streams, drawn, strict=True) if c0 != eos]
    if going:
        _expand(speaker, [stream for stream, _ in going], torch.tensor([c0 for _, c0 in going]))
    return [stream for stream, _ in going]


def _expand(speaker: TalkerSide, streams: list[Stream], c0: Tensor) -> None:
    samplers = [stream.sampler for stream in streams]
    hidden = torch.stack([stream.hidden for stream in streams])

    def sample(logits: Tensor, _: int) -> Tensor:
        # logits: [B, V] -> [B]
        return torch.tensor([sampler.sample_group(row) for sampler, row in zip(samplers, logits, strict=True)])

    codes = speaker.predictor.predict(hidden, c0, sample, speaker.talker)
    text = torch.stack([text_row(stream.prompt, len(stream.frames)) for stream in streams])
    rows = speaker.predictor.embed_sum(codes, speaker.talker) + text
    hidden = speaker.talker.decode(rows, [stream.cache for stream in streams])
    for stream, frame, row in zip(streams, codes, hidden, strict=True):
        stream.frames.append(frame)
        stream.hidden = row


def text_row(prompt: Prompt, frame: int) -> Tensor:
    return prompt.trailing[frame] if frame < len(prompt.trailing) else prompt.pad


def speak(speaker: TalkerSide, prompt: Prompt, params: SamplingParams, frames: int) -> Tensor:
    """Codes [F, G] of one request alone, at most `frames`."""
    stream = start(speaker, prompt, params)
    while len(stream.frames) < frames and step(speaker, [stream]):
        continue
    return torch.stack(stream.frames)


def teacher_forced(talker: Talker, predictor: CodePredictor, prompt: Prompt, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities that whole sequences give to frames [F, G]: codebook 0 [F, V], the others [F, G-1, V]."""
    text = torch.stack([text_row(prompt, frame) for frame in range(len(codes) - 1)])
    rows = torch.cat((prompt.rows, predictor.embed_sum(codes[:-1], talker) + text))
    hidden = talker(rows[None])[0, len(prompt.rows) - 1 :]
    return talker.logits(hidden).log_softmax(-1), predictor(hidden, codes, talker).log_softmax(-1)
