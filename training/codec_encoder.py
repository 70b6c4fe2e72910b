"""The teacher-side half of the codec: latents of the teacher to codes. It makes the training set and is not shipped.

It reads the teacher's z, not a waveform: z holds everything the sound is made of and needs no vocoder to get.
Codebooks are learned by moving averages (van den Oord et al. 2017, VQ-VAE, appendix A); entries that nobody uses are
thrown onto a random vector of the batch.
"""

from __future__ import annotations

import torch
from geometry import CODEC, GROUPS
from torch import Tensor, nn
from torch.nn import functional as F

from ouzel.models.qwen3_tts.codec_decoder import Codebook, CodecDecoder, ResidualQuantizer

Z = 192


class Encoder(nn.Module):
    """Convolutions from 100 latents a second to 12.5 vectors a second; looks both ways."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.first = nn.Conv1d(Z, width, 5, padding=2)
        self.blocks = nn.ModuleList(_Halving(width) for _ in range(3))
        self.middle = nn.Conv1d(width, width, 3, padding=1)
        self.heads = nn.ModuleList(nn.Conv1d(width, CODEC.codebook_dim, 1) for _ in range(2))

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        # z: [B, T * 8, 192] -> two of [B, codebook_dim, T]: for codebook 0, for the rest
        x = self.first(z.transpose(1, 2))
        for block in self.blocks:
            x = block(x)
        x = x + self.middle(F.gelu(x))
        return self.heads[0](x), self.heads[1](x)


class _Halving(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, 5, padding=2)
        self.norm = nn.GroupNorm(8, width)
        self.down = nn.Conv1d(width, width, 4, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        # x: [B, C, T] -> [B, C, T / 2]
        return self.down(F.gelu(x + self.norm(self.conv(F.gelu(x)))))


class Codec(nn.Module):
    """Encoder, quantizer and decoder together; the quantizer lives in the decoder, where the checkpoint has it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()
        self.decoder = CodecDecoder(CODEC)

    def quantize(self, z: Tensor, learn: bool, keep: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """z [B, T * 8, 192] -> codes [B, G, T], vectors [B, codebook_dim, T] (all, codebook 0 only), commitment.

        keep [B] says how many codebooks after the first each row may use: the first ones then learn to say most.
        """
        first, rest = self.encoder(z)
        quantizer = self.decoder.quantizer
        one, codes_one, commit_one = residual_quantize(quantizer.rvq_first, first, learn)
        more, codes_more, commit_more = residual_quantize(quantizer.rvq_rest, rest, learn, keep)
        return torch.cat((codes_one, codes_more), 1), one + more, one, commit_one + commit_more

    @torch.no_grad()
    def encode(self, z: Tensor) -> Tensor:
        """z [B, T * 8, 192] -> codes [B, G, T]."""
        return self.quantize(z, learn=False)[0]


def residual_quantize(
    branch: ResidualQuantizer, x: Tensor, learn: bool, keep: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """x [B, codebook_dim, T] -> projected sum of the kept codebook vectors (straight-through), codes, commitment."""
    wanted = branch.input_proj(x)
    left, total, codes = wanted, torch.zeros_like(wanted), []
    commitment = x.new_zeros(())
    for place, book in enumerate(branch.codebooks()):
        found = nearest(book, left.detach())
        vector = book(found).transpose(1, 2)
        commitment = commitment + F.mse_loss(left, vector.detach())
        if learn:
            learn_codebook(book, left.detach().transpose(1, 2).flatten(0, 1), found.flatten())
        left = left - vector.detach()
        total = total + (vector if keep is None else vector * (keep > place)[:, None, None]).detach()
        codes.append(found)
    passed = wanted if keep is None else wanted * (keep > 0)[:, None, None]
    return branch.output_proj(passed + (total - passed).detach()), torch.stack(codes, 1), commitment / len(codes)


def nearest(book: Codebook, x: Tensor) -> Tensor:
    """x [B, D, T] -> indices [B, T] of the nearest entries."""
    entries = book.vectors()
    flat = x.transpose(1, 2)
    return (entries.square().sum(1) - 2 * flat @ entries.T).argmin(-1)


@torch.no_grad()
def learn_codebook(book: Codebook, vectors: Tensor, chosen: Tensor, decay: float = 0.98) -> None:
    """Move each entry toward the mean of the vectors that chose it. vectors: [N, D], chosen: [N]."""
    sums, usage = book.embedding_sum.data, book.cluster_usage.data
    count = torch.zeros_like(usage).index_add_(0, chosen, torch.ones_like(chosen, dtype=usage.dtype))
    mean_sum = torch.zeros_like(sums).index_add_(0, chosen, vectors)
    usage.mul_(decay).add_(count, alpha=1 - decay)
    sums.mul_(decay).add_(mean_sum, alpha=1 - decay)
    dead = usage < 0.2
    if dead.any():
        fresh = vectors[torch.randint(len(vectors), (int(dead.sum()),), device=vectors.device)]
        sums[dead], usage[dead] = fresh, 1.0


def start_codebooks(codec: Codec) -> None:
    """All entries dead: the first batch fills them with its own vectors."""
    for module in codec.modules():
        if isinstance(module, Codebook):
            module.cluster_usage.data.zero_()


assert CODEC.num_quantizers == GROUPS
