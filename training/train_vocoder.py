"""Phase 1 of the codec: the vocoder learns mel spectrogram -> sound, beside the latents' training.

Checkpoints (and the moving average that is kept in the end) are written every few minutes and resumed.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import shards
import torch
from checkpoints import MovingAverage, read, write
from geometry import CODEC
from losses import LatentTarget, SpectralLoss

from ouzel.models.qwen3_tts.codec_decoder import CodecDecoder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path, help="checkpoint, resumed if it exists")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--frames", type=int, default=10, help="frames of a crop")
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rng = np.random.default_rng()
    net = CodecDecoder(CODEC).to(args.device)
    vocoder = net.decoder
    target, loss_of = LatentTarget().to(args.device), SpectralLoss().to(args.device)
    optimizer = torch.optim.AdamW(vocoder.parameters(), lr=args.rate, betas=(0.8, 0.99), weight_decay=1e-3)
    average = MovingAverage(vocoder, 0.999)
    step, shown, loaded = 0, 0.0, time.monotonic()
    if args.out.exists():
        saved = read(args.out)
        vocoder.load_state_dict(saved["vocoder"])
        optimizer.load_state_dict(saved["optimizer"])
        average.load(saved["average"])
        step = saved["step"]

    def keep() -> None:
        write(
            args.out,
            vocoder=vocoder.state_dict(),
            optimizer=optimizer.state_dict(),
            average=average.state,
            step=step,
        )

    vocode = torch.compile(net.vocode)
    speech, begin = shards.load(args.data, sound=True), time.monotonic()
    while (elapsed := time.monotonic() - begin) < args.minutes * 60:
        if time.monotonic() - loaded > 300 and elapsed < 1500:  # the teacher may still be speaking
            speech, loaded = shards.load(args.data, sound=True), time.monotonic()
        first = speech.crops(rng, args.batch, args.frames)
        padded = torch.from_numpy(speech.pcm_crops(first, args.frames, target.margin)).to(args.device)
        real = padded[:, target.margin : -target.margin]
        mel = target(padded)
        mel = mel + torch.randn_like(mel) * 0.1 * torch.rand(len(mel), 1, 1, device=mel.device)
        for group in optimizer.param_groups:
            group["lr"] = args.rate * min(1.0, (step + 1) / 200)
        loss = loss_of(vocode(mel), real)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(vocoder.parameters(), 1.0)
        optimizer.step()
        average.update(vocoder)
        step += 1
        shown = loss.item() if step == 1 else 0.98 * shown + 0.02 * loss.item() if shown else loss.item()
        if step % 100 == 0:
            print(f"{step} {elapsed:.0f}s spectral {shown:.3f}", flush=True)
        if step % 500 == 0:
            keep()
    keep()


if __name__ == "__main__":
    main()
