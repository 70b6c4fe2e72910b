"""Phase 1 of the codec, beside the vocoder: teacher latents -> codes -> mel spectrogram.

Cheap, since nothing runs above 100 steps a second. Codebook 0 is told to name the phones of its frame (four a frame,
from the teacher's own durations), so that what the talker has to say first is what is being said.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import shards
import torch
from checkpoints import MovingAverage, read, write
from codec_encoder import Codec, start_codebooks
from geometry import CODEC, GROUPS, LATENT
from losses import LatentTarget
from torch import nn
from torch.nn import functional as F

PHONES = 256


class PhoneHeads(nn.Module):
    """Training only: the phone of each 20 ms, from codebook 0 alone and from the decoded latent."""

    def __init__(self) -> None:
        super().__init__()
        self.of_code = nn.Linear(CODEC.codebook_dim, 4 * PHONES)
        self.of_latent = nn.Sequential(nn.Linear(LATENT, 256), nn.GELU(), nn.Linear(256, PHONES))

    def forward(
        self, first: torch.Tensor, latent: torch.Tensor, phones: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # first: [B, D, T], latent: [B, LATENT, 4T], phones: [B, 8T]
        wanted = phones[:, 1::2].flatten()
        a = self.of_code(first.transpose(1, 2)).unflatten(-1, (4, PHONES)).reshape(-1, PHONES)
        b = self.of_latent(latent.transpose(1, 2)).reshape(-1, PHONES)
        return F.cross_entropy(a, wanted), F.cross_entropy(b, wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--frames", type=int, default=25)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--start", type=Path, help="checkpoint whose tensors are taken")
    parser.add_argument("--drop", type=float, default=0.3, help="share of crops that lack some of the last codebooks")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rng = np.random.default_rng()
    codec, heads, target = Codec().to(args.device), PhoneHeads().to(args.device), LatentTarget().to(args.device)
    start_codebooks(codec)
    for block in codec.decoder.upsample:
        nn.init.constant_(block[1].gamma, 0.1)
    trained = [p for n, p in [*codec.named_parameters(), *heads.named_parameters()] if "decoder.decoder." not in n]
    optimizer = torch.optim.AdamW(trained, lr=args.rate, betas=(0.9, 0.98), weight_decay=1e-3)
    step, shown = 0, np.zeros(4)
    if args.out.exists():
        saved = read(args.out)
        codec.load_state_dict(saved["codec"])
        heads.load_state_dict(saved["heads"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    elif args.start:
        saved = read(args.start)
        codec.load_state_dict(saved["codec"])
        heads.load_state_dict(saved["heads"])
    average = MovingAverage(codec, 0.998)

    def keep() -> None:
        write(
            args.out,
            codec=codec.state_dict(),
            heads=heads.state_dict(),
            optimizer=optimizer.state_dict(),
            step=step,
        )

    speech, begin = shards.load(args.data, sound=True), time.monotonic()
    loaded = begin
    while (elapsed := time.monotonic() - begin) < args.minutes * 60:
        if time.monotonic() - loaded > 240 and elapsed < 900:
            speech, loaded = shards.load(args.data, sound=True), time.monotonic()
        done = elapsed / (args.minutes * 60)
        for group in optimizer.param_groups:
            group["lr"] = args.rate * min(1.0, (step + 1) / 100) * (1 - 0.95 * done)
        first = speech.crops(rng, args.batch, args.frames)
        z, phones = (torch.from_numpy(a).to(args.device) for a in speech.z_crops(first, args.frames))
        wanted = target(torch.from_numpy(speech.pcm_crops(first, args.frames, target.margin)).to(args.device))
        books = torch.from_numpy(
            np.where(rng.random(args.batch) < args.drop, rng.integers(0, GROUPS - 1, args.batch), GROUPS)
        ).to(args.device)
        codes, vectors, one, commitment = codec.quantize(z, done < 0.9, books)
        latent = codec.decoder.latent(vectors)
        mel = F.l1_loss(latent, wanted)
        phone_code, phone_latent = heads(one, latent, phones.long())
        loss = mel + 0.1 * commitment + 0.05 * phone_code + 0.05 * phone_latent
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        average.update(codec)
        step += 1
        values = np.array([mel.item(), commitment.item(), phone_code.item(), phone_latent.item()])
        shown = values if step == 1 else 0.98 * shown + 0.02 * values
        if step % 50 == 0:
            used = [int(c.unique().numel()) for c in codes.unbind(1)]
            names = " ".join(f"{n} {v:.3f}" for n, v in zip(("mel", "commit", "code", "phone"), shown, strict=True))
            print(f"{step} {elapsed:.0f}s {names} entries used {used}", flush=True)
        if step % 400 == 0:
            keep()
    codec.load_state_dict(average.state)
    keep()


if __name__ == "__main__":
    main()
