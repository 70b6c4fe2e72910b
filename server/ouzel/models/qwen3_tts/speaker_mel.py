"""The mel spectrogram that the speaker encoder listens to."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["HOP", "speaker_mel"]

HOP = 256
_WINDOW = 1024
_PAD = (_WINDOW - HOP) // 2


def speaker_mel(samples: Tensor, *, sample_rate: int, mels: int) -> Tensor:
    """Natural logarithm of the mel magnitudes, one frame in 256 samples; more than 384 samples.

    Window 1024 (Hann), no centring, reflected by 384 samples at both ends; the constants are the official front end's
    (`mel_spectrogram` of qwen-tts 0.1.1) and stand in no config.
    """
    # samples: [L] float32 in -1..1 -> [T, mels]
    padded = F.pad(samples[None], (_PAD, _PAD), mode="reflect")[0]
    window = torch.hann_window(_WINDOW, device=samples.device)
    spectrum = torch.stft(padded, _WINDOW, HOP, window=window, center=False, return_complex=True)
    magnitude = (torch.view_as_real(spectrum).square().sum(-1) + 1e-9).sqrt()
    filters = torch.from_numpy(_slaney_filters(sample_rate, mels)).to(samples.device)
    return (filters @ magnitude).clamp(min=1e-5).log().T


@lru_cache(maxsize=4)
def _slaney_filters(sample_rate: int, mels: int) -> NDArray[np.float32]:
    # -> [mels, bins]: triangles of equal area, evenly spaced on Slaney's scale from 0 to half the sample rate
    bins = np.linspace(0, sample_rate / 2, _WINDOW // 2 + 1)
    edges = _hertz(np.linspace(0, _mel(sample_rate / 2), mels + 2))[:, None]
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins - low) / (centre - low), (high - bins) / (high - centre)
    return (np.minimum(rising, falling).clip(0) * 2 / (high - low)).astype(np.float32)


# Slaney's scale: linear up to 1 kHz (15 mel), from there 27 mel for every factor of 6.4.
_KNEE_HZ, _KNEE_MEL, _MEL_PER_NEPER = 1000.0, 15.0, 27 / np.log(6.4)


def _mel(hertz: float) -> float:
    if hertz < _KNEE_HZ:
        return hertz * _KNEE_MEL / _KNEE_HZ
    return float(_KNEE_MEL + _MEL_PER_NEPER * np.log(hertz / _KNEE_HZ))


def _hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _KNEE_HZ * np.exp((mel - _KNEE_MEL) / _MEL_PER_NEPER)
    return np.where(mel < _KNEE_MEL, mel * _KNEE_HZ / _KNEE_MEL, above)
