"""A whole voice in small, which speaks noise: talker and codec of the goldens' geometry, fitted to each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import tiny_codec
import tiny_talker
from ouzel.models.qwen3_tts.codec_config import CodecDecoderConfig
from ouzel.models.qwen3_tts.codec_decoder import CodecDecoder
from seeded import seeded_weights
from tiny_ours import config

GROUPS = tiny_codec.VALID_QUANTIZERS
SAMPLES_PER_FRAME = 1920


def write_voice(folder: Path) -> Path:
    """A checkpoint folder in the published layout, with the block of our own voices."""
    folder.mkdir(parents=True, exist_ok=True)
    top = _top()
    _dump(folder / "config.json", top)
    _dump(folder / "generation_config.json", tiny_talker.GENERATION)
    tiny_talker.write_tokenizer(folder)
    tiny_talker.write_weights(folder, tiny_talker.weights(top))
    _write_codec(folder / "speech_tokenizer")
    return folder


def _top() -> dict[str, Any]:
    top = tiny_talker.config("small", "custom_voice")
    top["talker_config"]["num_code_groups"] = GROUPS
    top["talker_config"]["code_predictor_config"]["num_code_groups"] = GROUPS
    top["ouzel"] = {"text": "normalize", "letters_per_second": 15.0, "default_speaker": "ryan"}
    return top


def _write_codec(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    block = tiny_codec.DECODER | {"codebook_size": tiny_talker.CODEBOOK}
    sizes = {"output_sample_rate": 24000, "decode_upsample_rate": SAMPLES_PER_FRAME}
    _dump(folder / "config.json", {"decoder_config": block, "encoder_valid_num_quantizers": GROUPS} | sizes)
    with torch.device("meta"):
        decoder = CodecDecoder(config(CodecDecoderConfig, block))
    shapes = {f"decoder.{name}": tuple(tensor.shape) for name, tensor in decoder.state_dict().items()}
    weights = seeded_weights(shapes, gains=tiny_codec.GAINS)
    save_file({name: torch.from_numpy(values) for name, values in weights.items()}, folder / "model.safetensors")


def _dump(file: Path, content: object) -> None:
    file.write_text(json.dumps(content), encoding="utf-8")
