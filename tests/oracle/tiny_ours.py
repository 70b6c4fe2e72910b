"""Our modules in the tiny geometry with the recipe's weights, and the goldens that the official ones made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import tiny_codec
from ouzel.models.qwen3_tts.codec_config import CodecDecoderConfig, CodecEncoderConfig, SpeakerEncoderConfig
from ouzel.models.qwen3_tts.codec_decoder import CodecDecoder
from ouzel.models.qwen3_tts.codec_encoder import CodecEncoder
from ouzel.models.qwen3_tts.speaker_encoder import SpeakerEncoder
from seeded import seeded_weights

Config = TypeVar("Config")
Module = TypeVar("Module", bound=nn.Module)


@lru_cache(maxsize=1)
def goldens() -> dict[str, Tensor]:
    return load_file(Path(__file__).parent / "golden" / "codec.safetensors")


def fill(module: Module, prefix: str) -> Module:
    shapes = {prefix + name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    weights = seeded_weights(shapes, gains=tiny_codec.GAINS)
    module.load_state_dict({name.removeprefix(prefix): torch.from_numpy(values) for name, values in weights.items()})
    return module.eval().requires_grad_(False)


def tiny_decoder(**changes: Any) -> CodecDecoder:
    return fill(CodecDecoder(config(CodecDecoderConfig, tiny_codec.DECODER | changes)), "decoder.")


def tiny_encoder(**changes: Any) -> CodecEncoder:
    geometry = config(CodecEncoderConfig, tiny_codec.ENCODER | changes)
    return fill(CodecEncoder(geometry, num_codes=tiny_codec.VALID_QUANTIZERS, samples_per_frame=1920), "encoder.")


def tiny_speaker_encoder() -> SpeakerEncoder:
    return fill(SpeakerEncoder(config(SpeakerEncoderConfig, tiny_codec.SPEAKER)), "speaker_encoder.")


def config(kind: type[Config], block: Mapping[str, Any]) -> Config:
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{key: _frozen(value) for key, value in block.items() if key in known})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
