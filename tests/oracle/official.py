"""The official talker over a checkpoint folder: what it is fed, what it answers, how it draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

import stand_ins
from tiny_prompts import REF_TEXT, TEXT, Case, Processing, reference_codes, speaker_vector

stand_ins.install()

from qwen_tts import Qwen3TTSModel  # noqa: E402
from qwen_tts.core.models import Qwen3TTSConfig, Qwen3TTSForConditionalGeneration, Qwen3TTSProcessor  # noqa: E402
from transformers import AutoConfig, AutoProcessor, GenerationConfig, LogitsProcessorList  # noqa: E402

__all__ = ["Run", "answers", "load", "margin", "processed", "run", "tokenize"]

TOP = 20
# Frames whose predictor logits are kept; codes are kept for all.
KEPT = 6

AutoConfig.register("qwen3_tts", Qwen3TTSConfig)
AutoProcessor.register(Qwen3TTSConfig, Qwen3TTSProcessor)


class Run:
    """One generation: its prompt, its codes [F, G], and the logits of every draw."""

    def __init__(self) -> None:
        self.prompt: dict[str, Tensor] = {}
        self.codes = torch.empty(0)
        self.talker_logits: list[Tensor] = []
        self.predictor_logits: list[Tensor] = []


def load(folder: Path, **options: Any) -> Qwen3TTSModel:
    """The official model and processor; its codec isn't loaded, and a missing speaker encoder is left at random."""
    config = Qwen3TTSConfig(**json.loads((folder / "config.json").read_text()))
    model = Qwen3TTSForConditionalGeneration._from_config(config, **options).eval()
    tensors = {name: tensor for file in folder.glob("model*.safetensors") for name, tensor in load_file(file).items()}
    missing, unexpected = model.load_state_dict(tensors, strict=False, assign=True)
    if unexpected or any(not name.startswith("speaker_encoder.") for name in missing):
        raise SystemExit(f"not the published names: missing {missing}, unexpected {unexpected}")
    return Qwen3TTSModel(model=model, processor=_processor(folder), generate_defaults={})


def tokenize(folder: Path, texts: tuple[str, ...]) -> list[Tensor]:
    processor = _processor(folder)
    return [processor(text=text, return_tensors="pt")["input_ids"][0] for text in texts]


def _processor(folder: Path) -> Any:
    # Without the package's flag, which depends on where a large vocabulary lies (docs/fidelity.md).
    return AutoProcessor.from_pretrained(folder, fix_mistral_regex=False)


@torch.inference_mode()
def run(official: Qwen3TTSModel, case: Case, frames: int, *, minimum: int) -> Run:
    """Generate at most `frames` frames greedily, at least `minimum`, and note everything on the way."""
    model, seen = official.model, Run()
    generate = model.talker.generate

    def noted(**given: Any) -> Any:
        # The package's own `generate` takes no minimum and always passes on 2.
        given["min_new_tokens"] = minimum
        seen.prompt = {
            "rows": given["inputs_embeds"][0],
            "trailing": given["trailing_text_hidden"][0],
            "pad": given["tts_pad_embed"][0, 0],
        }
        return generate(**given)

    hooks = [model.talker.codec_head.register_forward_hook(lambda _, __, out: seen.talker_logits.append(out[0, -1]))]
    hooks += [
        head.register_forward_hook(lambda _, __, out: seen.predictor_logits.append(out[0, -1]))
        for head in model.talker.code_predictor.lm_head
    ]
    model.talker.generate = noted
    try:
        # The last token that is drawn is never expanded into a frame.
        greedy = {"do_sample": False, "subtalker_dosample": False, "max_new_tokens": frames + 1}
        codes, _ = model.generate(**_request(official, case), **greedy)
    finally:
        model.talker.generate = generate
        for hook in hooks:
            hook.remove()
    seen.codes = codes[0]
    return seen


def answers(seen: Run) -> dict[str, Tensor]:
    """What is worth keeping of a run: prompt, codes, and the top of each distribution."""
    groups = seen.codes.shape[1]
    talker = torch.stack(seen.talker_logits[: len(seen.codes)]).log_softmax(-1).topk(TOP)
    predictor = torch.stack(seen.predictor_logits[: KEPT * (groups - 1)]).unflatten(0, (-1, groups - 1))
    predictor_top = predictor.log_softmax(-1).topk(TOP)
    return seen.prompt | {
        "codes": seen.codes.to(torch.int16),
        "talker_ids": talker.indices.to(torch.int16),
        "talker_logprobs": talker.values,
        "predictor_ids": predictor_top.indices.to(torch.int16),
        "predictor_logprobs": predictor_top.values,
    }


def margin(seen: Run, codebook: int) -> float:
    """The closest call of a greedy run: below about 1e-4 equal codes would be luck. Special ids don't compete."""
    best = [torch.stack(logits)[:, :codebook].topk(2).values for logits in (seen.talker_logits, seen.predictor_logits)]
    return min(float((pair[:, 0] - pair[:, 1]).min()) for pair in best)


def _request(official: Qwen3TTSModel, case: Case) -> dict[str, Any]:
    request: dict[str, Any] = {
        "input_ids": official._tokenize_texts([official._build_assistant_text(TEXT)]),
        "languages": [case.language],
        "non_streaming_mode": not case.streaming,
    }
    if case.speaker:
        request["speakers"] = [case.speaker]
    if case.instruct:
        request["instruct_ids"] = official._tokenize_texts([official._build_instruct_text(case.instruct)])
    if case.model_type == "base":
        cloned = case.frames is not None
        request["voice_clone_prompt"] = {
            "ref_spk_embedding": [torch.from_numpy(speaker_vector())],
            "ref_code": [torch.from_numpy(reference_codes(case.frames)) if cloned else None],
            "x_vector_only_mode": [not cloned],
            "icl_mode": [cloned],
        }
        request["ref_ids"] = official._tokenize_texts([official._build_ref_text(REF_TEXT)])
    return request


def processed(official: Qwen3TTSModel, setting: Processing, logits: np.ndarray, drawn: np.ndarray) -> Tensor:
    """Probabilities [V] of the next codebook-0 code, through the processors that `generate` would build."""
    talker = official.model.config.talker_config
    special = range(talker.vocab_size - 1024, talker.vocab_size)
    generation = GenerationConfig(
        do_sample=True,
        temperature=setting.temperature,
        top_k=setting.top_k,
        top_p=setting.top_p,
        repetition_penalty=setting.repetition_penalty,
        min_new_tokens=setting.min_frames,
        eos_token_id=talker.codec_eos_token_id,
        suppress_tokens=[id_ for id_ in special if id_ != talker.codec_eos_token_id],
    )
    generation._eos_token_tensor = torch.tensor([talker.codec_eos_token_id])
    processors = official.model.talker._get_logits_processor(
        generation_config=generation, input_ids_seq_length=0, logits_processor=LogitsProcessorList(), device="cpu"
    )
    scores = processors(torch.from_numpy(drawn)[None], torch.from_numpy(logits)[None].clone())
    return scores.softmax(-1)[0]
