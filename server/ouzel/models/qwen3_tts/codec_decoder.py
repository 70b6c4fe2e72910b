"""The 12 Hz codec's decoder: codes in, sound out, 1,920 samples a frame.

Every operation is causal (zeros on the left, nothing on the right), so decoding frame by frame through an explicit
state gives the samples of a single pass, however the frames are cut. Module names are the checkpoint's
(`speech_tokenizer/model.safetensors`, keys `decoder.*`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ouzel.models.qwen3_tts.codec_config import CodecDecoderConfig


@dataclass(slots=True)
class DecoderState:
    """What one stream carries from chunk to chunk: convolution histories, overlap tails, keys and values.

    Tensors are float32 [batch, channels, time] (histories, tails) or [2, batch, heads, time, head_dim] (keys and
    values), filed under the module that owns them. About 5 MB a stream at the published geometry.
    """

    tensors: dict[nn.Module, Tensor] = field(default_factory=dict)
    position: int = 0

    def nbytes(self) -> int:
        """Bytes held by this stream."""
        return sum(t.numel() * t.element_size() for t in self.tensors.values())


class CausalConv(nn.Module):
    """Convolution that sees only the past: (kernel - 1) * dilation zeros, or the stream's history, on the left."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.past = (kernel - 1) * dilation
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)

    def forward(self, x: Tensor, state: DecoderState | None = None) -> Tensor:
        # x: [B, C, T] -> [B, C', T]
        if self.past == 0:
            return self.conv(x)
        if state is None:
            return self.conv(F.pad(x, (self.past, 0)))
        history = state.tensors.get(self)
        x = F.pad(x, (self.past, 0)) if history is None else torch.cat((history, x), dim=-1)
        state.tensors[self] = x[..., -self.past :].clone()
        return self.conv(x)


class CausalTransposedConv(nn.Module):
    """Upsampling by `stride`; what reaches past the chunk's end is the next chunk's overlap (kept without bias)."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.overlap = kernel - stride
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride=stride)

    def forward(self, x: Tensor, state: DecoderState | None = None) -> Tensor:
        # x: [B, C, T] -> [B, C', T * stride]
        if self.overlap == 0:
            return self.conv(x)
        if state is None:
            return self.conv(x)[..., : -self.overlap]
        y = F.conv_transpose1d(x, self.conv.weight, None, self.conv.stride)
        tail = state.tensors.get(self)
        if tail is not None:
            y[..., : self.overlap] += tail
        state.tensors[self] = y[..., -self.overlap :].clone()
        assert self.conv.bias is not None
        return y[..., : -self.overlap] + self.conv.bias[:, None]


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

    def forward(self, x: Tensor, state: DecoderState | None = None) -> Tensor:
        # x: [B, C, T]
        return x + self.conv2(self.act2(self.conv1(self.act1(x), state)), state)


class UpsampleBlock(nn.Module):
    """One step of the vocoder: channels halve, time grows by `rate`, three residual units widen the view."""

    def __init__(self, channels: int, rate: int) -> None:
        super().__init__()
        half = channels // 2
        self.block = nn.ModuleList(
            [SnakeBeta(channels), CausalTransposedConv(channels, half, 2 * rate, rate)]
            + [ResidualUnit(half, dilation) for dilation in (1, 3, 9)]
        )

    def forward(self, x: Tensor, state: DecoderState | None = None) -> Tensor:
        # x: [B, C, T] -> [B, C / 2, T * rate]
        x = self.block[0](x)
        for module in self.block[1:]:
            x = module(x, state)
        return x


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution and a pointwise MLP, scaled and added to the input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(channels, channels, 7, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.pwconv2 = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.full((channels,), 1e-6))

    def forward(self, x: Tensor, state: DecoderState | None = None) -> Tensor:
        # x: [B, C, T]
        y = self.norm(self.dwconv(x, state).transpose(1, 2))
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
        self.window = config.sliding_window
        hidden = config.hidden_size
        self.q_proj = nn.Linear(hidden, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, hidden, bias=False)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], state: DecoderState | None = None) -> Tensor:
        # x: [B, T, H]; rotary: cos and sin [T, head_dim]
        batch, time, _ = x.shape
        q = rotate(self.q_proj(x).view(batch, time, self.heads, self.head_dim).transpose(1, 2), rotary)
        k = rotate(self.k_proj(x).view(batch, time, self.kv_heads, self.head_dim).transpose(1, 2), rotary)
        v = self.v_proj(x).view(batch, time, self.kv_heads, self.head_dim).transpose(1, 2)
        if state is not None:
            past = state.tensors.get(self)
            if past is not None:
                k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
            keep = max(0, k.shape[2] - (self.window - 1))
            state.tensors[self] = torch.stack((k[:, :, keep:], v[:, :, keep:]))
        mask = window_mask(time, k.shape[2], self.window, x.device)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=self.heads != self.kv_heads)
        return self.o_proj(y.transpose(1, 2).reshape(batch, time, -1))


class GatedMLP(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, T, H]
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


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

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor], state: DecoderState | None = None) -> Tensor:
        # x: [B, T, H]
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x), rotary, state))
        return x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))


class CodecTransformer(nn.Module):
    """The transformer between codes and vocoder, at 12.5 frames a second."""

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.input_proj = nn.Linear(config.latent_dim, config.hidden_size)
        self.layers = nn.ModuleList([CodecLayer(config) for _ in range(config.num_hidden_layers)])
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.output_proj = nn.Linear(config.hidden_size, config.latent_dim)

    def forward(self, x: Tensor, state: DecoderState | None = None) -> Tensor:
        # x: [B, T, latent]
        start = state.position if state is not None else 0
        rotary = rotary_table(start, x.shape[1], self.config.head_dim, self.config.rope_theta, x.device)
        x = self.input_proj(x)
        for layer in self.layers:
            x = layer(x, rotary, state)
        return self.output_proj(self.norm(x))


class Codebook(nn.Module):
    """Codebook vectors, stored as the running sums of their training: embedding = sum / usage."""

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.embedding_sum = nn.Parameter(torch.zeros(size, dim), requires_grad=False)
        self.cluster_usage = nn.Parameter(torch.ones(size), requires_grad=False)

    def forward(self, codes: Tensor) -> Tensor:
        # codes: [B, T] -> [B, T, dim]
        return F.embedding(codes, self.embedding_sum / self.cluster_usage.clamp(min=1e-5)[:, None])


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

    def forward(self, codes: Tensor) -> Tensor:
        # codes: [B, G, T] -> [B, codebook_dim, T]
        vectors = [layer._codebook(codes[:, i]) for i, layer in enumerate(self.vq.layers)]
        return self.output_proj(torch.stack(vectors).sum(0).transpose(1, 2))


class SplitQuantizer(nn.Module):
    """Codebook 0 (meaning) and the rest (sound), dequantized apart and added."""

    def __init__(self, config: CodecDecoderConfig) -> None:
        super().__init__()
        self.rvq_first = ResidualQuantizer(1, config)
        self.rvq_rest = ResidualQuantizer(config.num_quantizers - 1, config)

    def forward(self, codes: Tensor) -> Tensor:
        # codes: [B, G, T] -> [B, codebook_dim, T]
        return self.rvq_first(codes[:, :1]) + self.rvq_rest(codes[:, 1:])


class CodecDecoder(nn.Module):
    """Codes [B, G, T] to samples [B, T * samples_per_frame] in [-1, 1], in one pass or through a state."""

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
        self.decoder = nn.ModuleList(
            [CausalConv(latent, width, 7), *blocks, SnakeBeta(last), CausalConv(last, 1, 7)]
        )

    def forward(self, codes: Tensor) -> Tensor:
        # codes: [B, G, T] -> [B, T * samples_per_frame]
        return self.vocode(self.latent(self.quantizer(codes)))

    def init_state(self) -> DecoderState:
        """A stream that has heard nothing yet; its batch is fixed by the first step."""
        return DecoderState()

    def step(self, codes: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Decode the next frames of a stream. The state is consumed: use the returned one."""
        # codes: [B, G, T] -> [B, T * samples_per_frame]
        samples = self.vocode(self.latent(self.quantizer(codes), state), state)
        state.position += codes.shape[-1]
        return samples, state

    def latent(self, x: Tensor, state: DecoderState | None = None) -> Tensor:
        """Dequantized frames to the vocoder's input, at prod(upsampling_ratios) steps a frame."""
        # x: [B, codebook_dim, T] -> [B, latent, T * 4]
        x = self.pre_conv(x, state)
        x = self.pre_transformer(x.transpose(1, 2), state).transpose(1, 2)
        for grow, refine in self.upsample:
            x = refine(grow(x, state), state)
        return x

    def vocode(self, x: Tensor, state: DecoderState | None = None) -> Tensor:
        """Latent steps to samples."""
        # x: [B, latent, T * 4] -> [B, T * samples_per_frame]
        for module in self.decoder:
            x = module(x) if isinstance(module, SnakeBeta) else module(x, state)
        return x.squeeze(1).clamp(-1, 1)


def rotary_table(start: int, length: int, dim: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin of positions start .. start + length - 1, halves repeated (NeoX order)."""
    # -> two of [length, dim]
    inverse = theta ** -(torch.arange(0, dim, 2, device=device, dtype=torch.float32) / dim)
    angles = torch.outer(torch.arange(start, start + length, device=device, dtype=torch.float32), inverse)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
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
