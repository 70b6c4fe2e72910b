"""A listener's check that can be repeated: voice, codec and teacher side by side on sentences that nobody trained on.

- DNSMOS P.835 (Reddy et al. 2022), a predictor of what listeners answer, from `speechmos`, which carries its weights:
  signal, background and overall, 1 to 5.
- Pitch and energy beside the teacher's. The two are laid on each other by dynamic time warping over their mel
  spectra first, so a difference of tempo isn't counted as one of melody.
- Mel distance to the teacher, and what the first and the last 5 ms hold: a step there is a click.
- `--picture` draws the spectrograms of one sentence.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import librosa
import numpy as np
import torch
from checkpoints import read
from codec_encoder import Codec
from evaluate import held_out, say
from geometry import RATE
from speechmos import dnsmos
from teacher import Teacher, to_frame_clock

from ouzel.config import load_config
from ouzel.in_process import InProcess
from ouzel.models.qwen3_tts.checkpoint import load_codec_decoder

HOP = RATE // 100
EDGE = RATE // 200
LOWEST, HIGHEST = 60.0, 260.0  # Hz, of this speaker


@dataclass(slots=True)
class Contours:
    """What is compared, 100 times a second."""

    mel: np.ndarray  # [80, T] natural logarithm
    pitch: np.ndarray  # [T] semitones over 55 Hz, also where there is no voice
    voiced: np.ndarray  # [T] bool
    energy: np.ndarray  # [T] dB


def contours(samples: np.ndarray) -> Contours:
    """Of [n] float32 at 24 kHz."""
    mel = librosa.feature.melspectrogram(y=samples, sr=RATE, n_fft=1024, hop_length=HOP, n_mels=80)
    frames = {"sr": RATE, "frame_length": 2048, "hop_length": HOP}
    voiced = librosa.pyin(samples, fmin=LOWEST, fmax=HIGHEST, **frames)[1]
    pitch = 12 * np.log2(librosa.yin(samples, fmin=LOWEST, fmax=HIGHEST, **frames) / 55)
    energy = librosa.feature.rms(y=samples, frame_length=1024, hop_length=HOP)[0]
    return Contours(np.log(mel + 1e-5), pitch, voiced, 20 * np.log10(energy + 1e-4))


def beside(ours: Contours, teachers: Contours) -> dict[str, float]:
    """How far apart they are along the path that lays them on each other; pitch where the teacher has one."""
    _, path = librosa.sequence.dtw(ours.mel, teachers.mel)
    a, b = path.T
    sung = teachers.voiced[b]
    p, q = ours.pitch[a][sung], teachers.pitch[b][sung]
    return {
        "mel_distance": float(np.abs(ours.mel[:, a] - teachers.mel[:, b]).mean()),
        "pitch_error_semitones": float(np.median(np.abs(p - q))),
        "pitch_within_a_semitone": float((np.abs(p - q) < 1).mean()),
        "pitch_median_difference": float(np.median(p) - np.median(q)),
        "energy_correlation": float(np.corrcoef(ours.energy[a], teachers.energy[b])[0, 1]),
        "voiced": float(ours.voiced.mean()),
        "teacher_voiced": float(teachers.voiced.mean()),
    }


def quality(samples: np.ndarray) -> dict[str, float]:
    """DNSMOS of [n] float32 at 24 kHz."""
    heard = librosa.resample(samples, orig_sr=RATE, target_sr=16_000)
    found = dnsmos.run(np.clip(heard, -1, 1), 16_000)
    return {name: float(found[f"{name}_mos"]) for name in ("sig", "bak", "ovrl")}


def edges(samples: np.ndarray) -> dict[str, float]:
    """The loudest sample of the first and the last 5 ms, of the whole's loudest."""
    loudest = float(np.abs(samples).max())
    return {
        "first_5ms": float(np.abs(samples[:EDGE]).max()) / loudest,
        "last_5ms": float(np.abs(samples[-EDGE:]).max()) / loudest,
    }


def draw(rows: dict[str, np.ndarray], text: str, file: Path) -> None:
    """Spectrograms below one another."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(rows), 1, figsize=(8, 1.9 * len(rows)), sharex=True, layout="constrained")
    for axis, (name, samples) in zip(axes, rows.items(), strict=True):
        power = librosa.amplitude_to_db(np.abs(librosa.stft(samples, n_fft=1024, hop_length=HOP)), ref=np.max)
        axis.imshow(
            power, origin="lower", aspect="auto", extent=(0, len(samples) / RATE, 0, 12), vmin=-80, cmap="magma"
        )
        axis.set_ylabel(f"{name}, kHz")
    axes[-1].set_xlabel("seconds")
    figure.suptitle(text, fontsize=9)
    figure.savefig(file, dpi=80)


def mean(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(float(np.mean([one[name] for one in found])), 3) for name in found[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("voice", type=Path, help="exported folder")
    parser.add_argument("data", type=Path, help="folder with test.jsonl")
    parser.add_argument("--codec", type=Path, required=True, help="checkpoint of train_latent.py")
    parser.add_argument("--sentences", type=int, default=40)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    codec = Codec()
    codec.load_state_dict(read(args.codec)["codec"])
    decoder = load_codec_decoder(args.voice)
    voice = InProcess.load(args.voice, load_config(("qwen3_tts",)).config, threads=1)
    teacher = Teacher(args.data)
    scores: dict[str, list[dict[str, float]]] = {"teacher": [], "codec": [], "voice": []}
    apart: dict[str, list[dict[str, float]]] = {"codec": [], "voice": []}
    for number, sentence in enumerate(held_out(args.data, args.sentences)):
        z, phones = teacher.latents(sentence["text"])
        z100, _, _ = to_frame_clock(z, phones)
        with torch.inference_mode():
            again = decoder(codec.encode(torch.from_numpy(z100.astype(np.float32))[None]))[0].numpy()
        said = {
            "teacher": teacher.sound(z).astype(np.float32),
            "codec": again,
            "voice": say(voice, sentence["written"], 0, streaming=False).samples,
        }
        lines = {name: contours(samples) for name, samples in said.items()}
        for name, samples in said.items():
            scores[name].append(quality(samples) | edges(samples))
        for name, found in apart.items():
            found.append(beside(lines[name], lines["teacher"]))
        if args.picture and number == 0:
            draw(said, sentence["text"], args.picture)
    figures = {
        "sentences": args.sentences,
        "scores": {name: mean(found) for name, found in scores.items()},
        "loudest_edge": {
            name: round(max(max(one["first_5ms"], one["last_5ms"]) for one in found), 4)
            for name, found in scores.items()
        },
        "beside_teacher": {name: mean(found) for name, found in apart.items()},
    }
    print(json.dumps(figures, indent=1))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
