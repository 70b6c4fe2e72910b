"""The codec encoder: a recording in, frames of codes out (the encoder half of Mimi; needed only to clone a voice).

SEANet convolutions (24 kHz -> 25 Hz), a causal transformer, a convolution of stride 2 (-> 12.5 Hz), split residual
quantization. Issue 2 §2; reference: qwen-tts 0.1.1 on transformers 4.57.3.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ouzel.errors import RequestError
from ouzel.models.qwen3_tts.codec_config import CodecEncoderConfig

__all__ = ["CodecEncoder"]


class CodecEncoder(nn.Module):
    """Keys as published below `encoder.` in `speech_tokenizer/model.safetensors`; float32.

    `num_codes` codes a frame are made (`encoder_valid_num_quantizers`), fewer than the checkpoint has codebooks for.
    """

    def __init__(self, config: CodecEncoderConfig, *, num_codes: int, samples_per_frame: int) -> None:
        super().__init__()
        self.config = config
        self.num_codes = num_codes
        self.encoder = _SEANet(config)
        self.encoder_transformer = _Transformer(config)
        stride = samples_per_frame // math.prod(config.upsampling_ratios)
        self.downsample = _Conv(
            config.hidden_size, config.hidden_size, 2 * stride, stride=stride, bias=False, pad_mode="replicate"
        )
        self.quantizer = _SplitQuantizer(config)

    def latent(self, samples: Tensor) -> Tensor:
        """What the quantizer sees: float32 [B, L] -> [B, hidden_size, ceil(L / samples_per_frame)]."""
        # samples: [B, L] -> [B, H, T]
        hidden = self.encoder_transformer(self.encoder(samples[:, None]).transpose(1, 2))
        latent: Tensor = self.downsample(hidden.transpose(1, 2))
        return latent

    @torch.inference_mode()
    def encode(self, samples: Tensor) -> Tensor:
        """Codes of recordings: mono float32 [B, L] at 24 kHz -> int64 [B, num_codes, ceil(L / samples_per_frame)].

        Raises RequestError where a recording is empty.
        """
        # samples: [B, L] -> [B, G, T]
        if samples.ndim != 2 or not samples.shape[-1]:
            shape = list(samples.shape)
            raise RequestError(f"ref_audio: samples of shape [B, L] are needed, not {shape}", param="ref_audio")
        codes: Tensor = self.quantizer(self.latent(samples.float()), self.num_codes)
        return codes


class _Conv(nn.Module):
    """Causal convolution: padded on the left by its reach, on the right up to a whole stride."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        bias: bool = True,
        pad_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, stride=stride, dilation=dilation, bias=bias)
        self.stride = stride
        self.reach = (kernel - 1) * dilation + 1 - stride
        self.pad_mode = pad_mode

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, L] -> [B, C', ceil(L / stride)]
        padded = F.pad(x, (self.reach, -x.shape[-1] % self.stride), mode=self.pad_mode)
        convolved: Tensor = self.conv(padded)
        return convolved


class _SEANet(nn.Module):
    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        width = config.num_filters
        layers: list[nn.Module] = [_Conv(config.audio_channels, width, config.kernel_size)]
        # The config lists the ratios in the decoder's order.
        for ratio in reversed(config.upsampling_ratios):
            layers += [_ResidualUnit(config, width, i) for i in range(config.num_residual_layers)]
            layers += [nn.ELU(), _Conv(width, 2 * width, 2 * ratio, stride=ratio)]
            width *= 2
        layers += [nn.ELU(), _Conv(width, config.hidden_size, config.last_kernel_size)]
        self.layers = nn.Sequential(*layers)

    def forward(self, samples: Tensor) -> Tensor:
        # samples: [B, 1, L] -> [B, H, T]
        hidden: Tensor = self.layers(samples)
        return hidden


class _ResidualUnit(nn.Module):
    def __init__(self, config: CodecEncoderConfig, width: int, i: int) -> None:
        super().__init__()
        narrow = width // config.compress
        dilation = config.dilation_growth_rate**i
        self.block = nn.Sequential(
            nn.ELU(),
            _Conv(width, narrow, config.residual_kernel_size, dilation=dilation),
            nn.ELU(),
            _Conv(narrow, width, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, L] -> [B, C, L]
        residual: Tensor = self.block(x)
        return x + residual


class _Transformer(nn.Module):
    """Causal without a window: the config's `sliding_window` is not applied by transformers 4.57.3, the reference."""

    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.num_hidden_layers))

    def forward(self, hidden: Tensor) -> Tensor:
        # hidden: [B, T, H] -> [B, T, H]
        cos, sin = _rope(hidden.shape[1], self.config.head_dim, self.config.rope_theta, hidden.device)
        for layer in self.layers:
            hidden = layer(hidden, cos, sin)
        return hidden


class _Layer(nn.Module):
    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        self.self_attn = _Attention(config)
        self.mlp = _MLP(config)
        self.input_layernorm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        self.post_attention_layernorm = nn.LayerNorm(config.hidden_size, eps=config.norm_eps)
        self.self_attn_layer_scale = _LayerScale(config.hidden_size)
        self.mlp_layer_scale = _LayerScale(config.hidden_size)

    def forward(self, hidden: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        # hidden: [B, T, H] -> [B, T, H]
        attended = self.self_attn(self.input_layernorm(hidden), cos, sin)
        hidden = hidden + self.self_attn_layer_scale(attended)
        changed: Tensor = self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(hidden)))
        return hidden + changed


class _LayerScale(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, T, H] -> [B, T, H]
        return self.scale * x


class _MLP(nn.Module):
    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, T, H] -> [B, T, H]
        changed: Tensor = self.fc2(F.gelu(self.fc1(x)))
        return changed


class _Attention(nn.Module):
    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        queries, keys = (n * config.head_dim for n in (config.num_attention_heads, config.num_key_value_heads))
        self.q_proj = nn.Linear(config.hidden_size, queries, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        # x: [B, T, H] -> [B, T, H]
        q, k, v = (
            proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        attended: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return attended


def _rope(length: int, head_dim: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    # -> cos, sin: [T, head_dim], the half-rotation (NeoX) layout
    steps = torch.arange(0, head_dim, 2, device=device).float() / head_dim
    angles = torch.outer(torch.arange(length, device=device).float(), theta**-steps).repeat(1, 2)
    return angles.cos(), angles.sin()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    # x: [B, heads, T, head_dim], cos and sin: [T, head_dim]
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class _SplitQuantizer(nn.Module):
    """The semantic codebook and the acoustic ones both quantize the same latent, each in its own projection."""

    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        self.num_semantic = config.num_semantic_quantizers
        self.semantic_residual_vector_quantizer = _ResidualQuantizer(config, self.num_semantic)
        self.acoustic_residual_vector_quantizer = _ResidualQuantizer(config, config.num_quantizers - self.num_semantic)

    def forward(self, latent: Tensor, num_codes: int) -> Tensor:
        # latent: [B, H, T] -> [B, num_codes, T] int64
        semantic = self.semantic_residual_vector_quantizer(latent, self.num_semantic)
        acoustic = self.acoustic_residual_vector_quantizer(latent, num_codes - self.num_semantic)
        return torch.cat((semantic, acoustic), dim=1)


class _ResidualQuantizer(nn.Module):
    def __init__(self, config: CodecEncoderConfig, count: int) -> None:
        super().__init__()
        width = config.vector_quantization_hidden_dimension
        self.input_proj = nn.Conv1d(config.hidden_size, width, 1, bias=False)
        self.output_proj = nn.Conv1d(width, config.hidden_size, 1, bias=False)  # published; decoding would use it
        self.layers = nn.ModuleList(_Quantizer(config) for _ in range(count))

    def forward(self, latent: Tensor, count: int) -> Tensor:
        # latent: [B, H, T] -> [B, count, T] int64
        residual = self.input_proj(latent).transpose(1, 2)
        codes = []
        for layer in self.layers[:count]:
            nearest, entries = layer(residual)
            residual = residual - entries
            codes.append(nearest)
        return torch.stack(codes, dim=1)


class _Quantizer(nn.Module):
    def __init__(self, config: CodecEncoderConfig) -> None:
        super().__init__()
        self.codebook = _Codebook(config.codebook_size, config.codebook_dim)

    def forward(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        # residual: [B, T, D] -> nearest entry [B, T] int64, its vector [B, T, D]
        entries = self.codebook.entries()
        nearest = torch.cdist(residual.flatten(0, 1), entries).argmin(dim=-1).view(residual.shape[:2])
        return nearest, F.embedding(nearest, entries)


class _Codebook(nn.Module):
    """A codebook as training left it: sums of the vectors that fell to each entry, and how many they were."""

    initialized: Tensor
    cluster_usage: Tensor
    embed_sum: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.register_buffer("initialized", torch.ones(1))
        self.register_buffer("cluster_usage", torch.ones(size))
        self.register_buffer("embed_sum", torch.zeros(size, width))

    def entries(self) -> Tensor:
        # -> [size, width]
        return self.embed_sum / self.cluster_usage.clamp(min=1e-5)[:, None]
