"""Configuration of the 12 Hz speech tokenizer and of the speaker encoder."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ouzel.models.qwen3_tts.published_json import Section

__all__ = [
    "CodecConfig",
    "CodecDecoderConfig",
    "CodecEncoderConfig",
    "SpeakerEncoderConfig",
    "read_codec",
    "read_speaker_encoder",
]


@dataclass(frozen=True, slots=True)
class CodecDecoderConfig:
    """Geometry of the codec decoder: codes to samples."""

    codebook_size: int
    codebook_dim: int
    num_quantizers: int
    latent_dim: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    sliding_window: int
    rope_theta: float
    rms_norm_eps: float
    layer_scale_initial_scale: float
    max_position_embeddings: int
    upsampling_ratios: tuple[int, ...]
    upsample_rates: tuple[int, ...]
    decoder_dim: int


@dataclass(frozen=True, slots=True)
class CodecEncoderConfig:
    """Geometry of the codec encoder, the encoder half of Mimi: samples to codes."""

    audio_channels: int
    hidden_size: int
    num_filters: int
    num_residual_layers: int
    upsampling_ratios: tuple[int, ...]
    kernel_size: int
    last_kernel_size: int
    residual_kernel_size: int
    dilation_growth_rate: int
    compress: int
    codebook_size: int
    codebook_dim: int
    vector_quantization_hidden_dimension: int
    num_quantizers: int
    num_semantic_quantizers: int
    num_hidden_layers: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    norm_eps: float
    rope_theta: float
    sliding_window: int


@dataclass(frozen=True, slots=True)
class CodecConfig:
    """The speech tokenizer; `encoder` is None for a voice that cannot clone."""

    decoder: CodecDecoderConfig
    encoder: CodecEncoderConfig | None
    sample_rate: int
    samples_per_frame: int
    num_code_groups: int


@dataclass(frozen=True, slots=True)
class SpeakerEncoderConfig:
    """The speaker encoder; published files speak only of `enc_dim` and `sample_rate`."""

    enc_dim: int
    sample_rate: int
    mel_dim: int = 128
    enc_channels: tuple[int, ...] = (512, 512, 512, 512, 1536)
    enc_kernel_sizes: tuple[int, ...] = (5, 3, 3, 3, 1)
    enc_dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    enc_attention_channels: int = 128
    enc_res2net_scale: int = 8
    enc_se_channels: int = 128


def read_codec(top: Section) -> CodecConfig:
    """The speech tokenizer's config.json."""
    encoder = top.section("encoder_config") if "encoder_config" in top else None
    decoder = CodecDecoderConfig(**top.section("decoder_config").fields(CodecDecoderConfig))
    samples = math.prod((*decoder.upsampling_ratios, *decoder.upsample_rates))
    if top.integer("decode_upsample_rate") != samples:
        raise top.error("decode_upsample_rate", f"is {top.integer('decode_upsample_rate')}, the rates give {samples}")
    return CodecConfig(
        decoder=decoder,
        encoder=None if encoder is None else CodecEncoderConfig(**encoder.fields(CodecEncoderConfig)),
        sample_rate=int(top.positive("output_sample_rate")),
        samples_per_frame=samples,
        num_code_groups=top.integer("encoder_valid_num_quantizers"),
    )


def read_speaker_encoder(section: Section) -> SpeakerEncoderConfig:
    """The block `speaker_encoder_config`; a geometry that it doesn't mention is the published one."""
    return SpeakerEncoderConfig(**section.fields(SpeakerEncoderConfig))
