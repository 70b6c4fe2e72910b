"""Ask the official package for the goldens of the codec and the speaker encoder (environment: requirements.txt).

python tests/oracle/make_codec_goldens.py tests/oracle/golden/codec.safetensors
"""

# ruff: noqa: E402
from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

import stand_ins
import tiny_codec
from seeded import seeded_weights

stand_ins.install()

from qwen_tts.core.models.configuration_qwen3_tts import Qwen3TTSSpeakerEncoderConfig
from qwen_tts.core.models.modeling_qwen3_tts import Qwen3TTSSpeakerEncoder, mel_spectrogram
from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import (
    Qwen3TTSTokenizerV2DecoderConfig,
)
from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import (
    Qwen3TTSTokenizerV2Decoder,
    Qwen3TTSTokenizerV2Encoder,
)
from transformers import MimiConfig

Tensors = dict[str, torch.Tensor]


def fill(module: torch.nn.Module, prefix: str) -> torch.nn.Module:
    """Give every tensor of the module its seeded values; the prefix keeps the modules' draws apart."""
    shapes = {prefix + name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    weights = seeded_weights(shapes, gains=tiny_codec.GAINS)
    state = {name.removeprefix(prefix): torch.from_numpy(values) for name, values in weights.items()}
    module.load_state_dict(state, strict=True)
    return module.eval()


def decoder_goldens() -> Tensors:
    decoder = fill(Qwen3TTSTokenizerV2Decoder(Qwen3TTSTokenizerV2DecoderConfig(**tiny_codec.DECODER)), "decoder.")
    # One pass: the package's own decode() cuts at 300 frames and is not exact at the seams.
    wave = decoder(torch.from_numpy(tiny_codec.tiny_codes()))[0, 0]
    frames = wave.double().reshape(tiny_codec.FRAMES, -1)
    rms, peak = float(wave.pow(2).mean().sqrt()), float(wave.abs().max())
    print(f"decoder: RMS {rms:.4f}, peak {peak:.4f}, frame RMS from {frames.pow(2).mean(1).sqrt().min():.4f}")
    if not (0.05 < rms < 0.3 and peak < 1):
        raise SystemExit("the golden must neither be silent nor clip: change tiny_codec.GAINS")
    return {
        "decoder.samples": wave[:: tiny_codec.KEPT_EVERY].clone(),
        "decoder.frame_mean": frames.mean(1),
        "decoder.frame_rms": frames.pow(2).mean(1).sqrt(),
    }


def encoder_goldens(name: str, samples: np.ndarray) -> Tensors:
    encoder = fill(Qwen3TTSTokenizerV2Encoder._from_config(MimiConfig(**tiny_codec.ENCODER)), "encoder.")
    wave = torch.from_numpy(samples)[None, None]
    hidden = encoder.encoder_transformer(encoder.encoder(wave).transpose(1, 2))[0].transpose(1, 2)
    latent = encoder.downsample(hidden)
    codes = encoder.encode(wave, return_dict=True).audio_codes[:, : tiny_codec.VALID_QUANTIZERS]
    print(
        f"encoder, {name}: {codes.shape[-1]} frames, {codes.unique().numel()} distinct codes, latent "
        f"RMS {latent.pow(2).mean().sqrt():.3f}, smallest margin between two entries {margin(encoder, latent):.1e}"
    )
    return {f"encoder.{name}.latent": latent, f"encoder.{name}.codes": codes.to(torch.int16)}


def margin(encoder: torch.nn.Module, latent: torch.Tensor) -> float:
    """The closest call of the whole search: below about 1e-4 equal codes would be luck."""
    closest = float("inf")
    for branch, count in (("semantic", 1), ("acoustic", tiny_codec.VALID_QUANTIZERS - 1)):
        quantizer = getattr(encoder.quantizer, f"{branch}_residual_vector_quantizer")
        residual = quantizer.input_proj(latent)
        for layer in quantizer.layers[:count]:
            nearest = torch.cdist(residual.transpose(1, 2), layer.codebook.embed[None]).topk(2, largest=False)
            closest = min(closest, float((nearest.values[..., 1] - nearest.values[..., 0]).min()))
            residual = residual - layer.decode(nearest.indices[..., 0])
    return closest


def speaker_goldens(name: str, samples: np.ndarray) -> Tensors:
    config = Qwen3TTSSpeakerEncoderConfig(**tiny_codec.SPEAKER)
    encoder = fill(Qwen3TTSSpeakerEncoder(config), "speaker_encoder.")
    mel = mel_spectrogram(
        torch.from_numpy(samples)[None], n_fft=1024, num_mels=128, sampling_rate=24000,
        hop_size=256, win_size=1024, fmin=0, fmax=12000,
    ).transpose(1, 2)  # fmt: skip
    embedding = encoder(mel)[0]
    print(f"speaker, {name}: mel {tuple(mel.shape)}, embedding RMS {embedding.pow(2).mean().sqrt():.3f}")
    return {f"speaker.{name}.mel": mel[0], f"speaker.{name}.embedding": embedding}


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    goldens = decoder_goldens()
    for name, samples in (("noise", tiny_codec.noise()), ("chirp", tiny_codec.chirp())):
        goldens |= encoder_goldens(name, samples) | speaker_goldens(name, samples)
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in goldens.items()}, out)
    print(f"{out}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
