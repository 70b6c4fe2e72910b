"""Spectra, the losses over them, and the discriminators of the last phase."""

from __future__ import annotations

import math

import torch
from geometry import LATENT, MELS, RATE
from torch import Tensor, nn
from torch.nn import functional as F

HOP = RATE // 100


def mel_filters(n_fft: int, count: int) -> Tensor:
    """Triangular filters on the mel scale, 0 Hz to half the rate: [count, n_fft / 2 + 1]."""
    frequency = torch.linspace(0, RATE / 2, n_fft // 2 + 1)
    mel = torch.linspace(0, 2595 * math.log10(1 + RATE / 1400), count + 2)
    edge = 700 * (10 ** (mel / 2595) - 1)
    rising = (frequency - edge[:-2, None]) / (edge[1:-1] - edge[:-2])[:, None]
    falling = (edge[2:, None] - frequency) / (edge[2:] - edge[1:-1])[:, None]
    return torch.minimum(rising, falling).clamp(min=0)


class Mel(nn.Module):
    """Log-mel spectrogram of [B, L] at one resolution."""

    def __init__(self, n_fft: int, hop: int, count: int) -> None:
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("filters", mel_filters(n_fft, count))

    def forward(self, x: Tensor, center: bool = True) -> tuple[Tensor, Tensor]:
        # x: [B, L] -> log-mel [B, count, T], magnitude [B, n_fft / 2 + 1, T]
        magnitude = torch.stft(x, self.n_fft, self.hop, window=self.window, center=center, return_complex=True).abs()
        return (self.filters @ magnitude).clamp(min=1e-5).log(), magnitude


class LatentTarget(nn.Module):
    """The vocoder's input as a target: two 10 ms mel frames a step, normalized; [B, 160, T] at 50 Hz.

    Windows are centred 5 ms into each 10 ms, so a step says nothing beyond 26 ms after its end.
    """

    margin = 512 - 120  # samples needed on either side of the crop

    def __init__(self) -> None:
        super().__init__()
        self.mel = Mel(1024, HOP, MELS)

    def forward(self, padded: Tensor) -> Tensor:
        # padded: [B, margin + L + margin]
        mel, _ = self.mel(padded, center=False)
        mel = (mel + 2.0) / 2.8  # mean and deviation over the teacher's speech
        return mel.unflatten(2, (-1, 2)).permute(0, 3, 1, 2).reshape(mel.shape[0], LATENT, -1)


class SpectralLoss(nn.Module):
    """Distance of log-mel and log-magnitude spectra at several resolutions, and of the magnitudes themselves.

    Logarithms alone taught a voice without pitch: noise between the harmonics costs them little. The last part is the
    spectral convergence of Arik et al. 2018 (arXiv 1808.06719), in which peaks count most.
    """

    def __init__(self) -> None:
        super().__init__()
        sizes = ((2048, 160), (1024, 80), (512, 40), (256, 20))
        self.scales = nn.ModuleList(Mel(n, n // 4, mels) for n, mels in sizes)

    def forward(self, made: Tensor, real: Tensor) -> Tensor:
        # made, real: [B, L]
        total = made.new_zeros(())
        for scale in self.scales:
            mel, magnitude = scale(made)
            with torch.no_grad():
                mel_real, magnitude_real = scale(real)
            total = total + F.l1_loss(mel, mel_real)
            total = total + 0.3 * F.l1_loss((magnitude + 1e-4).log(), (magnitude_real + 1e-4).log())
            apart = (magnitude - magnitude_real).flatten(1).norm(dim=1)
            total = total + 0.5 * (apart / magnitude_real.flatten(1).norm(dim=1).clamp(min=1e-2)).mean()
        return total


class WaveLoss(nn.Module):
    """Distance of the complex spectra, phase included: for sound whose phase follows from the codes (lock_pitch.py).

    Each frequency counts by its own mean magnitude, else nothing above the first formant would count.
    """

    def __init__(self, n_fft: int = 512) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, made: Tensor, real: Tensor) -> Tensor:
        # made, real: [B, L]
        hop = self.n_fft // 4
        ours, theirs = (torch.stft(x, self.n_fft, hop, window=self.window, return_complex=True) for x in (made, real))
        apart, loud = (torch.view_as_real(x).norm(dim=-1).mean((0, 2)) for x in (ours - theirs, theirs))
        return (apart / loud.clamp(min=1e-4)).mean()


class Bass(nn.Module):
    """Training only: the sound below 400 Hz, read off the vocoder's input, so that it holds pitch and phase."""

    stride = 24  # samples; a thousand values a second

    def __init__(self) -> None:
        super().__init__()
        n = torch.arange(-240, 241)
        kernel = torch.sinc(n * (2 * 400 / RATE)) * torch.hann_window(481, periodic=False)
        self.register_buffer("kernel", (kernel / kernel.sum())[None, None])
        self.head = nn.Linear(LATENT, RATE // 50 // self.stride)

    def forward(self, latent: Tensor, real: Tensor) -> Tensor:
        # latent: [B, LATENT, T], real: [B, T * 480]
        low = self.low(real)
        told = self.head(latent.transpose(1, 2)).flatten(1)
        return F.l1_loss(told, low) / low.abs().mean().clamp(min=1e-3)

    def low(self, real: Tensor) -> Tensor:
        # real: [B, T * 480] -> [B, T * 20]
        return F.conv1d(real[:, None], self.kernel, stride=self.stride, padding=240)[:, 0]

    @torch.no_grad()
    def fit(self, latent: Tensor, real: Tensor) -> None:
        """Begin with the best linear map there is: a random one only disturbs what is read."""
        # latent: [B, LATENT, T], real: [B, T * 480]
        read = latent.transpose(1, 2).flatten(0, 1)
        read = torch.cat((read, torch.ones_like(read[:, :1])), 1)
        wanted = self.low(real).view(len(read), -1)
        found = torch.linalg.lstsq(read, wanted).solution
        self.head.weight.copy_(found[:-1].T)
        self.head.bias.copy_(found[-1])


class SpectrumDiscriminator(nn.Module):
    """Real or made, judged patch by patch on the complex spectrogram at one resolution."""

    def __init__(self, n_fft: int, channels: int = 24) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))
        norm = nn.utils.parametrizations.weight_norm
        strides = ((1, 1), (2, 1), (2, 1), (2, 1))
        widths = (2, channels, channels, channels)
        self.layers = nn.ModuleList(
            norm(nn.Conv2d(w, channels, (5, 3), stride=s, padding=(2, 1))) for w, s in zip(widths, strides, strict=True)
        )
        self.out = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        # x: [B, L] -> verdicts, features of each layer
        spectrum = torch.stft(x, self.n_fft, self.n_fft // 4, window=self.window, return_complex=True)
        y = torch.view_as_real(spectrum).permute(0, 3, 1, 2)
        y = y / y.abs().mean((1, 2, 3), keepdim=True).clamp(min=1e-4)
        features = []
        for layer in self.layers:
            y = F.leaky_relu(layer(y), 0.1)
            features.append(y)
        return self.out(y), features


class Discriminators(nn.Module):
    """Three resolutions together, with the losses of both sides (least squares, feature matching)."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(SpectrumDiscriminator(n) for n in (1024, 512, 256))

    def judge_loss(self, made: Tensor, real: Tensor) -> Tensor:
        # made, real: [B, L]
        total = made.new_zeros(())
        for part in self.parts:
            total = total + part(made)[0].square().mean() + (1 - part(real)[0]).square().mean()
        return total

    def maker_loss(self, made: Tensor, real: Tensor) -> Tensor:
        # made, real: [B, L]
        total = made.new_zeros(())
        for part in self.parts:
            verdict, features = part(made)
            with torch.no_grad():
                _, wanted = part(real)
            match = sum(F.l1_loss(a, b) / b.abs().mean().clamp(min=1e-5) for a, b in zip(features, wanted, strict=True))
            total = total + (1 - verdict).square().mean() + 2 * match / len(features)
        return total
