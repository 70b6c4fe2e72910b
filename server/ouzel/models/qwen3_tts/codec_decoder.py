"""The 12 Hz codec's decoder as a network: codes in, sound out, 1,920 samples a frame, in one pass.

Training uses it; to serve, build the `StreamingDecoder` of `codec_stream` from it. Every operation is causal: zeros on
the left, nothing on the right. Module names are the checkpoint's (`speech_tokenizer/model.safetensors`, `decoder.*`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ouzel.models.qwen3_tts.codec_config import CodecDecoderConfig

__all__ = ["CodecDecoder"]

Rotary = tuple[Tensor, Tensor]  # cos and sin [T, head_dim]


class CodecDecoder(nn.Module):
    """Codes [B, G, T] to samples [B, T * samples_per_frame] in -1..1."""

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.samples_per_frame = math.prod((*config.upsampling_ratios, *config.upsample_rates))
        latent, width = config.latent_dim, config.decoder_dim
        self.quantizer = SplitQuantizer(config)
        self.pre_conv = CausalConv(config.codebook_dim, latent, 3)
        self.pre_transformer = CodecTransformer(config)
        self.upsample = nn.ModuleList(
            nn.ModuleList([CausalTransposedConv(latent, latent, ratio, ratio), ConvNeXtBlock(latent)])
            for ratio in config.upsampling_ratios
        )
        blocks = [UpsampleBlock(width >> i, rate) for i, rate in enumerate(config.upsample_rates)]
        last = width >> len(blocks)
        self.decoder = nn.ModuleList([CausalConv(latent, width, 7), *blocks, SnakeBeta(last), CausalConv(last, 1, 7)])

    def forward(self, codes: Tensor) -> Tensor:
        # codes: [B, G, T] -> [B, T * samples_per_frame]
        return self.vocode(self.latent(self.quantizer(codes)))

    def latent(self, x: Tensor) -> Tensor:
        """Dequantized frames to the vocoder's input, at prod(upsampling_ratios) steps a frame."""
        # x: [B, codebook_dim, T] -> [B, latent, T * 4]
        x = self.pre_conv(x)
        x = self.pre_transformer(x.transpose(1, 2)).transpose(1, 2)
        for stage in self.upsample.children():
            for module in stage.children():
                x = module(x)
        return x

    def vocode(self, x: Tensor) -> Tensor:
        """Latent steps to samples."""
        # x: [B, latent, T * 4] -> [B, T * samples_per_frame]
        for module in self.decoder:
            x = module(x)
        return x.squeeze(1).clamp(-1, 1)


class CausalConv(nn.Module):
    """Convolution that sees only the past, (kernel - 1) * dilation zeros where there is none."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.past = (kernel - 1) * dilation
        self.stride = 1
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, T] -> [B, C', T]
        y: Tensor = self.conv(F.pad(x, (self.past, 0)) if self.past else x)
        return y


class CausalTransposedConv(nn.Module):
    """Upsampling by `stride`; what would reach past the end is cut off."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, T] -> [B, C', T * stride]
        y: Tensor = self.conv(x)
        return y[..., : x.shape[-1] * self.stride]


class SnakeBeta(nn.Module):
    """x + sin²(αx) / β, a periodic activation; α and β are stored as logarithms."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, T]
        alpha, beta = self.alpha.exp()[:, None], self.beta.exp()[:, None]
        return x + torch.sin(x * alpha).square() / (beta + 1e-9)


class ResidualUnit(nn.Module):
    """Snake, dilated convolution, Snake, pointwise convolution, added to the input."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.act1 = SnakeBeta(channels)
        self.conv1 = CausalConv(channels, channels, 7, dilation)
        self.act2 = SnakeBeta(channels)
        self.conv2 = CausalConv(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, T]
        y: Tensor = self.conv2(self.act2(self.conv1(self.act1(x))))
        return x + y


class UpsampleBlock(nn.Module):
    """One step of the vocoder: channels halve, time grows by `rate`, three residual units widen the view."""

    def __init__(self, channels: int, rate: int) -> None:
        super().__init__()
        half = channels // 2
        self.block = nn.Sequential(
            SnakeBeta(channels),
            CausalTransposedConv(channels, half, 2 * rate, rate),
            *(ResidualUnit(half, dilation) for dilation in (1, 3, 9)),
        )

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, T] -> [B, C / 2, T * rate]
        y: Tensor = self.block(x)
        return y


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution and a pointwise MLP, scaled and added to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(channels, channels, 7, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.pwconv2 = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.full((channels,), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, T]
        y: Tensor = self.norm(self.dwconv(x).transpose(1, 2))
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))
        return x + y.transpose(1, 2)


class LayerScale(nn.Module):
    """A learned factor for each channel of a residual branch."""

    def __init__(self, channels: int, initial: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((channels,), initial))

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, T, H]
        return self.scale * x


class WindowAttention(nn.Module):
    """Causal attention over the last `sliding_window` frames, this one included; rotary positions, no q/k norm."""

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
        )
        hidden = config.hidden_size
        self.q_proj = nn.Linear(hidden, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, hidden, bias=False)

    def forward(self, x: Tensor, rotary: Rotary, mask: Tensor) -> Tensor:
        # x: [B, T, H]; mask: [T, T]
        q, k, v = (
            project(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotate(q, rotary), rotate(k, rotary)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=self.heads != self.kv_heads)
        attended: Tensor = self.o_proj(y.transpose(1, 2).flatten(2))
        return attended


class GatedMLP(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, T, H]
        y: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return y


class CodecLayer(nn.Module):
    """Pre-norm attention and MLP, each branch under its LayerScale."""

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = WindowAttention(config)
        self.self_attn_layer_scale = LayerScale(config.hidden_size, config.layer_scale_initial_scale)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.mlp = GatedMLP(config.hidden_size, config.intermediate_size)
        self.mlp_layer_scale = LayerScale(config.hidden_size, config.layer_scale_initial_scale)

    def forward(self, x: Tensor, rotary: Rotary, mask: Tensor) -> Tensor:
        # x: [B, T, H]
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x), rotary, mask))
        y: Tensor = self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))
        return x + y


class CodecTransformer(nn.Module):
    """The transformer between codes and vocoder, at 12.5 frames a second."""

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.input_proj = nn.Linear(config.latent_dim, config.hidden_size)
        self.layers = nn.ModuleList([CodecLayer(config) for _ in range(config.num_hidden_layers)])
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.output_proj = nn.Linear(config.hidden_size, config.latent_dim)

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, T, latent]
        config, time = self.config, x.shape[1]
        rotary = rotary_table(0, time, config.head_dim, config.rope_theta, x.device)
        mask = window_mask(time, time, config.sliding_window, x.device)
        x = self.input_proj(x)
        for layer in self.layers:
            x = layer(x, rotary, mask)
        y: Tensor = self.output_proj(self.norm(x))
        return y


class Codebook(nn.Module):
    """Codebook vectors, stored as the running sums of their training: vector = sum / usage."""

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.embedding_sum = nn.Parameter(torch.zeros(size, dim), requires_grad=False)
        self.cluster_usage = nn.Parameter(torch.ones(size), requires_grad=False)

    def vectors(self) -> Tensor:
        # -> [size, dim]
        return self.embedding_sum / self.cluster_usage.clamp(min=1e-5)[:, None]

    def forward(self, codes: Tensor) -> Tensor:
        # codes: [B, T] -> [B, T, dim]
        return F.embedding(codes, self.vectors())


class _Layer(nn.Module):
    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self._codebook = Codebook(size, dim)


class _Layers(nn.Module):
    def __init__(self, count: int, size: int, dim: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_Layer(size, dim) for _ in range(count)])


class ResidualQuantizer(nn.Module):
    """A stack of codebooks whose vectors add up, then one projection to the decoder's width."""

    def __init__(self, count: int, config: CodecDecoderConfig) -> None:
        super().__init__()
        inner = config.codebook_dim // 2
        self.input_proj = nn.Conv1d(config.codebook_dim, inner, 1, bias=False)
        self.output_proj = nn.Conv1d(inner, config.codebook_dim, 1, bias=False)
        self.vq = _Layers(count, config.codebook_size, inner)

    def codebooks(self) -> list[Codebook]:
        return [book for book in self.vq.modules() if isinstance(book, Codebook)]

    def forward(self, codes: Tensor) -> Tensor:
        # codes: [B, G, T] -> [B, codebook_dim, T]
        vectors = [book(codes[:, i]) for i, book in enumerate(self.codebooks())]
        y: Tensor = self.output_proj(torch.stack(vectors).sum(0).transpose(1, 2))
        return y


class SplitQuantizer(nn.Module):
    """Codebook 0 (meaning) and the rest (sound), dequantized apart and added."""

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.rvq_first = ResidualQuantizer(1, config)
        self.rvq_rest = ResidualQuantizer(config.num_quantizers - 1, config)

    def forward(self, codes: Tensor) -> Tensor:
        # codes: [B, G, T] -> [B, codebook_dim, T]
        first: Tensor = self.rvq_first(codes[:, :1])
        rest: Tensor = self.rvq_rest(codes[:, 1:])
        return first + rest


def rotary_table(start: int, length: int, dim: int, theta: float, device: torch.device) -> Rotary:
    """cos and sin of positions start .. start + length - 1, halves repeated (NeoX order)."""
    # -> two of [length, dim]
    inverse = theta ** -(torch.arange(0, dim, 2, device=device, dtype=torch.float32) / dim)
    angles = torch.outer(torch.arange(start, start + length, device=device, dtype=torch.float32), inverse)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, rotary: Rotary) -> Tensor:
    """Rotary position embedding, NeoX order (first half with second half)."""
    # x: [B, heads, T, head_dim]; rotary: cos and sin [T, head_dim]
    cos, sin = rotary
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


def window_mask(queries: int, keys: int, window: int, device: torch.device) -> Tensor:
    """True where a query may look: itself and the window - 1 keys before it. Queries are the last of the keys."""
    # -> [queries, keys] bool
    distance = torch.arange(keys - queries, keys, device=device)[:, None] - torch.arange(keys, device=device)[None]
    return (distance >= 0) & (distance < window)
