"""The speaker encoder: a few seconds of a voice in, one vector out (ECAPA-TDNN; Base checkpoints only)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ouzel.errors import RequestError
from ouzel.models.qwen3_tts.codec_config import SpeakerEncoderConfig
from ouzel.models.qwen3_tts.speaker_mel import HOP, speaker_mel

__all__ = ["SpeakerEncoder"]


class SpeakerEncoder(nn.Module):
    """Keys as published below `speaker_encoder.`; float32 whatever the rest of the model is."""

    def __init__(self, config: SpeakerEncoderConfig) -> None:
        super().__init__()
        self.config = config
        widths, kernels, dilations = config.enc_channels, config.enc_kernel_sizes, config.enc_dilations
        blocks: list[nn.Module] = [_TimeDelay(config.mel_dim, widths[0], kernels[0], dilations[0])]
        blocks += [_SERes2Net(config, i) for i in range(1, len(widths) - 1)]
        self.blocks = nn.ModuleList(blocks)
        self.mfa = _TimeDelay(widths[-1], widths[-1], kernels[-1], dilations[-1])
        self.asp = _AttentivePooling(widths[-1], config.enc_attention_channels)
        self.fc = nn.Conv1d(2 * widths[-1], config.enc_dim, 1)

    def forward(self, mel: Tensor) -> Tensor:
        """Speaker vectors of log-mel spectrograms: float32 [B, T, mel_dim] -> [B, enc_dim]."""
        # mel: [B, T, M] -> [B, E]
        x = self.blocks[0](mel.transpose(1, 2))
        levels = []
        for block in self.blocks[1:]:
            x = block(x)
            levels.append(x)
        x = self.mfa(torch.cat(levels, dim=1))
        embedding: Tensor = self.fc(self.asp(x))
        return embedding.squeeze(-1)

    @torch.inference_mode()
    def embed(self, samples: Tensor) -> Tensor:
        """The speaker vector of one recording: mono float32 [L] at `config.sample_rate` -> [enc_dim].

        Raises RequestError where the recording is shorter than the widest reflection of the network needs.
        """
        # samples: [L] -> [E]
        least = HOP * (1 + max(self._reach))
        if samples.ndim != 1 or len(samples) < least:
            found = list(samples.shape)
            message = f"ref_audio: a mono recording of at least {least} samples is needed, not of shape {found}"
            raise RequestError(message, param="ref_audio")
        mel = speaker_mel(samples.float(), sample_rate=self.config.sample_rate, mels=self.config.mel_dim)
        embedding: Tensor = self(mel[None])[0]
        return embedding

    @property
    def _reach(self) -> list[int]:
        pairs = zip(self.config.enc_kernel_sizes, self.config.enc_dilations, strict=True)
        return [(kernel - 1) * dilation // 2 for kernel, dilation in pairs]


class _TimeDelay(nn.Module):
    """Convolution over time with reflected edges, as long as its input, then ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, padding="same", padding_mode="reflect")

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, T] -> [B, C', T]
        return torch.relu(self.conv(x))


class _Res2Net(nn.Module):
    """The channels in slices; each slice is convolved after the result of the one before it was added."""

    def __init__(self, channels: int, scale: int, kernel: int, dilation: int) -> None:
        super().__init__()
        width = channels // scale
        self.blocks = nn.ModuleList(_TimeDelay(width, width, kernel, dilation) for _ in range(scale - 1))

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, T] -> [B, C, T]
        first, second, *rest = x.chunk(len(self.blocks) + 1, dim=1)
        outputs = [first, self.blocks[0](second)]
        for block, part in zip(self.blocks[1:], rest, strict=True):
            outputs.append(block(part + outputs[-1]))
        return torch.cat(outputs, dim=1)


class _SqueezeExcitation(nn.Module):
    """A gain per channel, from the means of all channels over time."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(channels, squeezed, 1)
        self.conv2 = nn.Conv1d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, T] -> [B, C, T]
        squeezed = torch.relu(self.conv1(x.mean(dim=2, keepdim=True)))
        return x * torch.sigmoid(self.conv2(squeezed))


class _SERes2Net(nn.Module):
    def __init__(self, config: SpeakerEncoderConfig, i: int) -> None:
        super().__init__()
        inputs, width = config.enc_channels[i - 1], config.enc_channels[i]
        self.tdnn1 = _TimeDelay(inputs, width)
        self.res2net_block = _Res2Net(
            width, config.enc_res2net_scale, config.enc_kernel_sizes[i], config.enc_dilations[i]
        )
        self.tdnn2 = _TimeDelay(width, width)
        self.se_block = _SqueezeExcitation(width, config.enc_se_channels)

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, T] -> [B, C, T]
        residual: Tensor = self.se_block(self.tdnn2(self.res2net_block(self.tdnn1(x))))
        return x + residual


class _AttentivePooling(nn.Module):
    """Mean and deviation over time, weighted by an attention that knows the unweighted ones."""

    def __init__(self, channels: int, attention: int) -> None:
        super().__init__()
        self.tdnn = _TimeDelay(3 * channels, attention)
        self.conv = nn.Conv1d(attention, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, T] -> [B, 2C, 1]
        uniform = x.new_full((1, 1, x.shape[-1]), 1 / x.shape[-1])
        whole = _moments(x, uniform).expand(-1, -1, x.shape[-1])
        scores = self.conv(torch.tanh(self.tdnn(torch.cat((x, whole), dim=1))))
        return _moments(x, torch.softmax(scores, dim=2))


def _moments(x: Tensor, weights: Tensor) -> Tensor:
    # x: [B, C, T], weights over T sum to 1 -> [B, 2C, 1]: mean, then deviation
    mean = (weights * x).sum(dim=2, keepdim=True)
    variance = (weights * (x - mean).square()).sum(dim=2, keepdim=True)
    return torch.cat((mean, variance.clamp(min=1e-12).sqrt()), dim=1)
