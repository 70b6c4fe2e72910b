"""Phase 2 of the codec: codes -> sound, with the encoder and the codebooks at rest, so that no code changes again.

Starts from train_pitch.py's codec and train_vocoder.py's vocoder. The sound is to have the teacher's waveform, which
its locked pitch allows, and its spectra where no waveform can be told. With `--hold` the vocoder learns alone, from
latents at rest: at first its gradients would only disturb them (their bass fell back from 0.74 to 0.95 in 150 steps).
With `--judges` the discriminators join (half the speed, so for the end). With `--said` half of the crops are made from
the codes that the talker would say there (say_codes.py), to the same sound: it will have to speak from those.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import shards
import torch
from checkpoints import MovingAverage, read, write
from codec_encoder import Codec
from geometry import FRAME, LATENT_STEPS, RATE
from losses import Bass, Discriminators, SpectralLoss, WaveLoss
from torch.nn import functional as F

CONTEXT = 40  # frames of codes before the crop, for the transformer
LEAD = 3  # frames that the vocoder runs before the crop and that are thrown away
ATTACK = RATE // 50  # samples
BEGIN_EVERY = 6  # steps: then the crops are beginnings of sentences, with no past, so that none begins with a click


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("latent", type=Path, help="checkpoint of train_pitch.py")
    parser.add_argument("vocoder", type=Path, help="checkpoint of train_vocoder.py")
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--said", type=Path, help="file of say_codes.py")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--frames", type=int, default=10)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--hold", action="store_true", help="the vocoder alone")
    parser.add_argument("--judges", action="store_true")
    parser.add_argument("--cool", action="store_true", help="let the learning rate fall by the end")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rng = np.random.default_rng()
    codec, bass = Codec().to(args.device), Bass().to(args.device)
    codec.load_state_dict(read(args.latent)["codec"])
    net = codec.decoder
    net.decoder.load_state_dict(read(args.vocoder)["vocoder"])
    speech = shards.load(args.data, sound=True)
    codes = encode_all(codec, speech)
    said = np.load(args.said)["codes"].astype(codes.dtype) if args.said else codes
    assert said.shape == codes.shape, f"{args.said}: {said.shape}, the shards with sound have {codes.shape}"
    judges, spectra, waves = (part().to(args.device) for part in (Discriminators, SpectralLoss, WaveLoss))
    trained = [p for n, p in net.named_parameters() if not n.startswith("quantizer")] + list(bass.parameters())
    optimizer = torch.optim.AdamW(trained, lr=args.rate, betas=(0.8, 0.99), weight_decay=1e-3)
    judging = torch.optim.AdamW(judges.parameters(), lr=3e-4, betas=(0.8, 0.99))
    average = MovingAverage(net, 0.999)
    step = 0
    if args.out.exists():
        saved = read(args.out)
        net.load_state_dict(saved["decoder"])
        optimizer.load_state_dict(saved["optimizer"])
        judges.load_state_dict(saved["judges"])
        judging.load_state_dict(saved["judging"])
        average.load(saved["average"])
        step = saved["step"]

    def keep() -> None:
        write(
            args.out,
            decoder=net.state_dict(),
            optimizer=optimizer.state_dict(),
            judges=judges.state_dict(),
            judging=judging.state_dict(),
            average=average.state,
            step=step,
        )

    with torch.no_grad():
        first = rng.integers(0, speech.frames - CONTEXT, 64)
        taken = torch.from_numpy(np.stack([codes[f : f + CONTEXT] for f in first])).to(args.device).transpose(1, 2)
        bass.fit(net.latent(net.quantizer(taken)), torch.from_numpy(speech.pcm_crops(first, CONTEXT)).to(args.device))
    vocode = torch.compile(net.vocode)
    begin, shown = time.thread_time(), np.zeros(5)
    while (elapsed := time.thread_time() - begin) < args.minutes * 60:
        done = elapsed / (args.minutes * 60)
        for group in optimizer.param_groups:
            group["lr"] = args.rate * (max(0.03, 1 - done) if args.cool else 1.0)
        begins = step % BEGIN_EVERY == 0
        context, lead = (0, 0) if begins else (CONTEXT, LEAD)
        if begins:
            first = rng.choice(speech.starts[speech.starts <= speech.frames - args.frames], args.batch)
        else:
            first = rng.integers(CONTEXT, speech.frames - args.frames, args.batch)
        heard = [said if rng.random() < 0.5 else codes for _ in first]
        crops = [spoken[f - context : f + args.frames] for f, spoken in zip(first, heard, strict=True)]
        taken = torch.from_numpy(np.stack(crops)).to(args.device).transpose(1, 2)
        real = torch.from_numpy(speech.pcm_crops(first, args.frames)).to(args.device)
        with torch.no_grad():
            vectors = net.quantizer(taken)
        with torch.set_grad_enabled(not args.hold):
            latent = net.latent(vectors)
            low = bass(latent[..., context * LATENT_STEPS :], real)
        made = vocode(latent[..., (context - lead) * LATENT_STEPS :])[:, lead * FRAME :]
        spectral, wave = spectra(made, real), waves(made, real)
        loss, fooled, judged = spectral + 2 * wave + low, made.new_zeros(()), made.new_zeros(())
        if begins:  # a step in the first samples is a click, and spectra hardly see it
            loss = loss + 10 * F.l1_loss(made[:, :ATTACK], real[:, :ATTACK])
        if args.judges:
            judges.requires_grad_(False)
            fooled = judges.maker_loss(made, real)
            loss = loss + 0.15 * fooled
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        average.update(net)
        if args.judges:
            judges.requires_grad_(True)
            judged = judges.judge_loss(made.detach(), real)
            judging.zero_grad()
            judged.backward()
            judging.step()
        step += 1
        values = np.array([v.item() for v in (spectral, wave, low, fooled, judged)])
        shown = values if not shown.any() else 0.98 * shown + 0.02 * values
        if step % 50 == 0:
            names = " ".join(
                f"{n} {v:.3f}" for n, v in zip(("spectral", "wave", "bass", "fooled", "judged"), shown, strict=True)
            )
            print(f"{step} {elapsed:.0f}s {names}", flush=True)
        if step % 250 == 0:
            keep()
    keep()


def encode_all(codec: Codec, speech: shards.Speech, piece: int = 2000) -> np.ndarray:
    """Codes [frames, G] of all speech; sentence borders don't matter at this size."""
    found, device = [], next(codec.parameters()).device
    for begin in range(0, speech.frames, piece):
        z, _ = speech.z_crops(np.array([begin]), min(piece, speech.frames - begin))
        found.append(codec.encode(torch.from_numpy(z).to(device))[0].T.cpu().numpy())
    return np.concatenate(found)


if __name__ == "__main__":
    main()
