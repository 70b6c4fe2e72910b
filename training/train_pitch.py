"""Between the codec's two phases: the transformer learns to tell the vocoder where in its period the voice is.

Codes and codebooks are at rest. The vocoder's input stays a mel spectrogram, and the sound below 400 Hz, phase
included, must be readable off it by one linear map (`losses.Bass`), which only a pitch that is locked to the frames
allows (lock_pitch.py). Nothing runs at 24 kHz, so it takes minutes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import shards
import torch
from checkpoints import read, write
from codec_encoder import Codec
from geometry import LATENT_STEPS
from losses import Bass, LatentTarget
from torch.nn import functional as F
from train_decoder import encode_all

CONTEXT = 10  # frames before the crop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of lock_pitch.py")
    parser.add_argument("codec", type=Path, help="checkpoint of train_latent.py, or of this")
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--mel", type=float, default=0.15, help="weight of the mel spectrogram beside the bass")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rng = np.random.default_rng()
    codec, target, bass = Codec(), LatentTarget(), Bass()
    codec.load_state_dict(read(args.codec)["codec"])
    net = codec.decoder
    speech = shards.load(args.data, sound=True)
    codes = encode_all(codec, speech)
    held = speech.frames * 98 // 100  # from here on nothing is learned
    resting = ("quantizer.", "decoder.")
    trained = [p for n, p in net.named_parameters() if not n.startswith(resting)] + list(bass.parameters())
    optimizer = torch.optim.AdamW(trained, lr=args.rate, betas=(0.9, 0.98), weight_decay=1e-3)

    def batch(low: int, high: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Of `count` crops between two frames: the vocoder's input, and the sound with its margins."""
        first = rng.integers(max(low, CONTEXT), high - args.frames, count)
        taken = torch.from_numpy(np.stack([codes[f - CONTEXT : f + args.frames] for f in first])).transpose(1, 2)
        padded = torch.from_numpy(speech.pcm_crops(first, args.frames, target.margin))
        return net.latent(net.quantizer(taken))[..., CONTEXT * LATENT_STEPS :], padded

    def heard(padded: torch.Tensor) -> torch.Tensor:
        return padded[:, target.margin : -target.margin]

    with torch.no_grad():
        latent, padded = batch(0, held, 64)
    bass.fit(latent, heard(padded))
    begin, shown, step = time.thread_time(), np.zeros(2), 0
    while (elapsed := time.thread_time() - begin) < args.minutes * 60:
        done = elapsed / (args.minutes * 60)
        for group in optimizer.param_groups:
            group["lr"] = args.rate * min(1.0, (step + 1) / 100) * max(0.03, 1 - done)
        latent, padded = batch(0, held, args.batch)
        mel, low = F.l1_loss(latent, target(padded)), bass(latent, heard(padded))
        optimizer.zero_grad()
        (args.mel * mel + low).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        step += 1
        values = np.array([mel.item(), low.item()])
        shown = values if step == 1 else 0.98 * shown + 0.02 * values
        if step % 100 == 0:
            with torch.no_grad():
                latent, padded = batch(held, speech.frames, args.batch)
                unseen = bass(latent, heard(padded))
            print(f"{step} {elapsed:.0f}s mel {shown[0]:.3f} bass {shown[1]:.3f} unseen {unseen:.3f}", flush=True)
    write(args.out, codec=codec.state_dict())


if __name__ == "__main__":
    main()
