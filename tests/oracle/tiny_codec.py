"""The tiny codec and speaker encoder of the goldens: geometry, gains and inputs, alike on both sides.

The dictionaries are the blocks of the published config.json files in small. The decoder keeps the published rates and
window (1,920 samples a frame, 72 frames), because those are what streaming can get wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seeded import seeded

DECODER = {
    "codebook_dim": 16,
    "codebook_size": 32,
    "latent_dim": 24,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rope_theta": 10000,
    "rms_norm_eps": 1e-5,
    "sliding_window": 72,
    "num_quantizers": 4,
    "upsampling_ratios": [2, 2],
    "upsample_rates": [8, 5, 4, 3],
    "decoder_dim": 64,
    "max_position_embeddings": 8000,
    "layer_scale_initial_scale": 0.01,
    "hidden_act": "silu",
    "attention_bias": False,
    "attention_dropout": 0.0,
}
PUBLISHED_DECODER = DECODER | {
    "codebook_dim": 512,
    "codebook_size": 2048,
    "latent_dim": 1024,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 64,
    "num_quantizers": 16,
    "decoder_dim": 1536,
}
ENCODER = {
    "hidden_size": 32,
    "num_filters": 4,
    "num_residual_layers": 1,
    "upsampling_ratios": [8, 6, 5, 4],
    "kernel_size": 7,
    "last_kernel_size": 3,
    "residual_kernel_size": 3,
    "dilation_growth_rate": 2,
    "compress": 2,
    "codebook_size": 64,
    "codebook_dim": 8,
    "num_quantizers": 6,
    "num_semantic_quantizers": 1,
    "vector_quantization_hidden_dimension": 8,
    "upsample_groups": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "sliding_window": 8,
    "sampling_rate": 24000,
    "audio_channels": 1,
    "hidden_act": "gelu",
    "attention_bias": False,
    "max_position_embeddings": 8000,
    "pad_mode": "constant",
    "use_causal_conv": True,
    "use_conv_shortcut": False,
    "trim_right_ratio": 1.0,
    "frame_rate": 12.5,
}
SPEAKER = {
    "mel_dim": 128,
    "enc_dim": 24,
    "enc_channels": [32, 32, 32, 32, 96],
    "enc_kernel_sizes": [5, 3, 3, 3, 1],
    "enc_dilations": [1, 2, 3, 4, 1],
    "enc_attention_channels": 16,
    "enc_res2net_scale": 8,
    "enc_se_channels": 16,
    "sample_rate": 24000,
}
VALID_QUANTIZERS = 4
FRAMES = 180
KEPT_EVERY = 7  # coprime with 1,920: every phase of a frame is among the kept samples
# Keep the residual stream near 1 (where Snake bends), bring the waveform's RMS to between 0.05 and 0.3 without
# clipping, and make the codes follow the sound rather than the biases.
GAINS = {f"decoder.decoder.{i}.block.{unit}.conv2.conv.weight": 0.4 for i in range(1, 5) for unit in (2, 3, 4)} | {
    "decoder.decoder.6.conv.weight": 0.1,
    "decoder.decoder.6.conv.bias": 0.1,
    "encoder.encoder.layers.0.conv.weight": 8.0,
}


def tiny_codes() -> NDArray[np.int64]:
    # -> [1, G, T]
    shape = (1, DECODER["num_quantizers"], FRAMES)
    return seeded("codes").integers(0, DECODER["codebook_size"], shape)


def noise(seconds: float = 1.03) -> NDArray[np.float32]:
    # -> [L] float32 at 24 kHz, a length that no stride divides
    return (0.2 * seeded("noise").standard_normal(round(24000 * seconds))).clip(-1, 1).astype(np.float32)


def chirp(seconds: float = 2.0) -> NDArray[np.float32]:
    # -> [L] float32 at 24 kHz, 80 Hz to 8 kHz
    t = np.arange(round(24000 * seconds)) / 24000
    phase = 2 * np.pi * 80 * seconds / np.log(100) * (100 ** (t / seconds) - 1)
    return (0.5 * np.sin(phase)).astype(np.float32)
