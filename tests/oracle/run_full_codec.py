"""The whole codec in the published geometry, seeded weights: ours beside the official package (see requirements.txt).

PYTHONPATH=server python tests/oracle/run_full_codec.py --frames 100
"""

# ruff: noqa: E402
from __future__ import annotations

import argparse

import numpy as np
import torch

import stand_ins
import tiny_codec
from seeded import seeded, seeded_weights

stand_ins.install()

from qwen_tts.core.models.configuration_qwen3_tts import Qwen3TTSSpeakerEncoderConfig
from qwen_tts.core.models.modeling_qwen3_tts import Qwen3TTSSpeakerEncoder, mel_spectrogram
from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2DecoderConfig
from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import (
    Qwen3TTSTokenizerV2Decoder,
    Qwen3TTSTokenizerV2Encoder,
)
from transformers import MimiConfig

from ouzel.models.qwen3_tts.codec_config import CodecDecoderConfig, CodecEncoderConfig, SpeakerEncoderConfig
from ouzel.models.qwen3_tts.codec_decoder import CodecDecoder
from ouzel.models.qwen3_tts.codec_encoder import CodecEncoder
from ouzel.models.qwen3_tts.codec_stream import StreamingDecoder
from ouzel.models.qwen3_tts.speaker_encoder import SpeakerEncoder
from tiny_ours import config

CHUNKS = (1, 2, 4, 8, 16, 25)
# The keys that MimiConfig() has of itself are the published encoder's.
PUBLISHED_ENCODER = MimiConfig().to_dict() | {"frame_rate": 12.5}


def same_weights(official: torch.nn.Module, ours: torch.nn.Module, prefix: str, gains: dict[str, float]) -> None:
    shapes = {prefix + name: tuple(tensor.shape) for name, tensor in official.state_dict().items()}
    weights = seeded_weights(shapes, gains=gains)
    state = {name.removeprefix(prefix): torch.from_numpy(values) for name, values in weights.items()}
    official.load_state_dict(state, strict=True)
    ours.load_state_dict(state, strict=True)
    count = sum(parameter.numel() for parameter in official.parameters())
    print(f"{prefix.removesuffix('.')}: {count:,} parameters in the official one")
    official.eval()
    ours.eval()


def compare_decoder(frames: int) -> None:
    official = Qwen3TTSTokenizerV2Decoder(Qwen3TTSTokenizerV2DecoderConfig(**tiny_codec.PUBLISHED_DECODER))
    ours = CodecDecoder(config(CodecDecoderConfig, tiny_codec.PUBLISHED_DECODER))
    same_weights(official, ours, "decoder.", tiny_codec.GAINS)
    codes = torch.from_numpy(seeded("codes").integers(0, 2048, (1, 16, frames)))
    wave = official(codes)[:, 0]
    rms, peak = float(wave.square().mean().sqrt()), float(wave.abs().max())
    print(f"  {frames} frames, RMS {rms:.4f}, peak {peak:.4f}, bar 1e-04")
    if not (0.05 < rms < 0.3 and peak < 1):
        raise SystemExit("the waveform must neither be silent nor clip")
    print(f"  one pass: greatest difference {float((ours(codes) - wave).abs().max()):.1e}")
    streaming = StreamingDecoder(ours)
    random = seeded("chunks").integers(1, 30, frames).tolist()
    for name, sizes in [*((f"chunks of {n}", [n] * frames) for n in CHUNKS), ("random chunks", random)]:
        print(f"  {name}: greatest difference {float((stream(streaming, codes, sizes) - wave).abs().max()):.1e}")
    print(f"  state: {streaming.state_bytes:,} bytes")


def stream(decoder: StreamingDecoder, codes: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    state, made, first = decoder.init_state(), [], 0
    for size in sizes:
        if first >= codes.shape[-1]:
            break
        samples, state = decoder.step(codes[..., first : first + size], state)
        made.append(samples)
        first += size
    return torch.cat(made, dim=-1)


def compare_encoder(recordings: dict[str, np.ndarray]) -> None:
    official = Qwen3TTSTokenizerV2Encoder._from_config(MimiConfig(**PUBLISHED_ENCODER))
    ours = CodecEncoder(config(CodecEncoderConfig, PUBLISHED_ENCODER), num_codes=16, samples_per_frame=1920)
    same_weights(official, ours, "encoder.", tiny_codec.GAINS)
    for name, samples in recordings.items():
        wave = torch.from_numpy(samples)[None]
        codes = official.encode(wave[:, None], return_dict=True).audio_codes[:, :16]
        equal = int((ours.encode(wave) == codes).sum())
        print(f"  {name}: {equal} of {codes.numel()} codes equal, {codes.unique().numel()} distinct")


def compare_speaker_encoder(recordings: dict[str, np.ndarray]) -> None:
    published = {"enc_dim": 1024, "sample_rate": 24000}
    official = Qwen3TTSSpeakerEncoder(Qwen3TTSSpeakerEncoderConfig(**published))
    ours = SpeakerEncoder(SpeakerEncoderConfig(**published))
    same_weights(official, ours, "speaker_encoder.", {})
    for name, samples in recordings.items():
        wave = torch.from_numpy(samples)
        mel = mel_spectrogram(
            wave[None], n_fft=1024, num_mels=128, sampling_rate=24000, hop_size=256, win_size=1024, fmin=0, fmax=12000
        )
        embedding = official(mel.transpose(1, 2))[0]
        difference = float((ours.embed(wave) - embedding).abs().max())
        rms = float(embedding.square().mean().sqrt())
        print(f"  {name}: greatest difference {difference:.1e}, RMS {rms:.3f}, bar 1e-04")


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100)
    frames: int = parser.parse_args().frames
    recordings = {"noise": tiny_codec.noise(seconds=12.03), "chirp": tiny_codec.chirp(seconds=3.0)}
    compare_decoder(frames)
    compare_encoder(recordings)
    compare_speaker_encoder(recordings)


if __name__ == "__main__":
    main()
