"""The one way in: a checkpoint folder in the published layout, whole or the side that a stage needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ouzel.errors import CheckpointError, RequestError
from ouzel.models.qwen3_tts.codec_config import CodecConfig
from ouzel.models.qwen3_tts.codec_decoder import CodecDecoder
from ouzel.models.qwen3_tts.codec_encoder import CodecEncoder
from ouzel.models.qwen3_tts.config import (
    CODEC_FOLDER,
    GenerationConfig,
    Qwen3TTSConfig,
    load_config,
    load_generation_config,
)
from ouzel.models.qwen3_tts.fused import fuse
from ouzel.models.qwen3_tts.predictor import CodePredictor
from ouzel.models.qwen3_tts.prompt import PromptBuilder
from ouzel.models.qwen3_tts.sampler import SamplingParams
from ouzel.models.qwen3_tts.speaker_encoder import SpeakerEncoder
from ouzel.models.qwen3_tts.talker import Talker
from ouzel.models.qwen3_tts.tokenizer import TextTokenizer
from ouzel.models.qwen3_tts.weights import fill, load_tensors
from ouzel.quantization.linear import quantize_linears

__all__ = [
    "Checkpoint",
    "TalkerSide",
    "load_checkpoint",
    "load_codec_decoder",
    "load_codec_encoder",
    "load_speaker_encoder",
    "load_talker_side",
]

Module = TypeVar("Module", bound=nn.Module)

PREDICTOR = "talker.code_predictor."


@dataclass(frozen=True, slots=True)
class TalkerSide:
    """What makes codes of text."""

    config: Qwen3TTSConfig
    generation: GenerationConfig
    tokenizer: TextTokenizer
    talker: Talker
    predictor: CodePredictor

    def prompts(self) -> PromptBuilder:
        """A builder of this checkpoint's prompts."""
        return PromptBuilder(self.talker, self.predictor, self.tokenizer, self.config)


@dataclass(frozen=True, slots=True)
class Checkpoint(TalkerSide):
    """Everything in the folder; the encoders are None for a voice that cannot clone."""

    codec_decoder: CodecDecoder
    codec_encoder: CodecEncoder | None
    speaker_encoder: SpeakerEncoder | None


def load_checkpoint(folder: Path, dtype: torch.dtype = torch.float32) -> Checkpoint:
    """Load all of `folder`; talker and predictor as `dtype`, codec and encoders as float32.

    Raises `CheckpointError`, naming the file, when one is missing or torn or doesn't hold what its config says.
    """
    side = load_talker_side(folder, dtype)
    return Checkpoint(
        config=side.config,
        generation=side.generation,
        tokenizer=side.tokenizer,
        talker=side.talker,
        predictor=side.predictor,
        codec_decoder=load_codec_decoder(folder),
        codec_encoder=load_codec_encoder(folder),
        speaker_encoder=load_speaker_encoder(folder),
    )


def load_talker_side(folder: Path, dtype: torch.dtype = torch.float32, group: int | None = None) -> TalkerSide:
    """Load config, tokenizer, talker and predictor, ready to serve. Raises as `load_checkpoint` does.

    :param group: put the layers of both into four bits, with a scale for so many inputs, fewer where a width demands
        it. Embeddings are looked up and heads are small, and what is sampled from stays as it was.
    :raises ConfigError: when no group divides the width of a layer
    """
    config = load_config(folder)
    generation, tokenizer = _generation(folder), _tokenizer(folder, config)
    source = str(folder)
    talker_tensors = load_tensors(folder, "talker.", without=(PREDICTOR,))
    talker = _filled(lambda: Talker(config.talker), talker_tensors, source, dtype)
    predictor_tensors = load_tensors(folder, PREDICTOR)
    predictor = _filled(lambda: CodePredictor(config.talker.predictor), predictor_tensors, source, dtype)
    fuse(talker.model)
    fuse(predictor.model)
    if group is not None:
        quantize_linears(talker.model, group)
        quantize_linears(predictor.model, group)
    return TalkerSide(
        config=config,
        generation=generation,
        tokenizer=tokenizer,
        talker=talker,
        predictor=predictor,
    )


def load_codec_decoder(folder: Path) -> CodecDecoder:
    """Load the codec decoder alone. Raises as `load_checkpoint` does."""
    config = _codec(folder).decoder
    return _codec_part(folder, "decoder.", lambda: CodecDecoder(config))


def load_codec_encoder(folder: Path) -> CodecEncoder | None:
    """Load the codec encoder alone, None where the voice has none. Raises as `load_checkpoint` does."""
    codec = _codec(folder)
    encoder = codec.encoder
    if encoder is None:
        return None
    return _codec_part(
        folder,
        "encoder.",
        lambda: CodecEncoder(encoder, num_codes=codec.num_code_groups, samples_per_frame=codec.samples_per_frame),
    )


def load_speaker_encoder(folder: Path) -> SpeakerEncoder | None:
    """Load the speaker encoder alone, None where the voice has none. Raises as `load_checkpoint` does."""
    config = load_config(folder).speaker_encoder
    if config is None:
        return None
    tensors = load_tensors(folder, "speaker_encoder.")
    return _filled(lambda: SpeakerEncoder(config), tensors, str(folder), torch.float32)


def _generation(folder: Path) -> GenerationConfig:
    generation = load_generation_config(folder)
    try:
        SamplingParams.of(generation)
    except RequestError as error:
        raise CheckpointError(f"{folder / 'generation_config.json'}: {error}") from error
    return generation


def _tokenizer(folder: Path, config: Qwen3TTSConfig) -> TextTokenizer:
    tokenizer, most = TextTokenizer(folder), config.talker.text_vocab_size
    if tokenizer.size > most:
        raise CheckpointError(f"{folder}: the tokenizer has ids up to {tokenizer.size - 1}, text_vocab_size is {most}")
    return tokenizer


def _codec(folder: Path) -> CodecConfig:
    codec = load_config(folder).codec
    if codec is None:
        raise CheckpointError(f"{folder / CODEC_FOLDER} is missing, expected config.json and model.safetensors in it")
    return codec


def _codec_part(folder: Path, prefix: str, make: Callable[[], Module]) -> Module:
    source = folder / CODEC_FOLDER
    return _filled(make, load_tensors(source, prefix), f"{source}, {prefix.removesuffix('.')}", torch.float32)


def _filled(make: Callable[[], Module], tensors: dict[str, Tensor], source: str, dtype: torch.dtype) -> Module:
    # On the meta device, so that nothing is held twice.
    with torch.device("meta"), _Undrawn():
        module = make()
    fill(module, tensors, source=source, dtype=dtype)
    return module.eval().requires_grad_(False)


class _Undrawn(TorchFunctionMode):
    """Leaves out the random first values of modules: on the meta device they would import torch's compiler, 1 s."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return given["tensor"] if "tensor" in given else args[0]
        return func(*args, **given)
