"""Shards of teacher speech in memory, and random crops of them."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from geometry import FRAME

STEPS = 8  # teacher latents of a frame (100 a second)


@dataclass(slots=True)
class Speech:
    """Sentences end to end. starts[i] .. starts[i + 1] are the frames of sentence i."""

    texts: list[str]
    starts: np.ndarray
    z: np.ndarray  # [frames * 8, 192] float16
    phones: np.ndarray  # [frames * 8] uint8
    pcm: np.ndarray | None  # [frames * 1920] int16

    @property
    def frames(self) -> int:
        return int(self.starts[-1])

    def crops(self, rng: np.random.Generator, count: int, frames: int) -> np.ndarray:
        """First frames of `count` crops; they may run across sentences, which are separated by their own silence."""
        return rng.integers(0, self.frames - frames, count)

    def z_crops(self, first: np.ndarray, frames: int) -> tuple[np.ndarray, np.ndarray]:
        """z [B, frames * 8, 192] float32 and phones [B, frames * 8]."""
        spans = [slice(f * STEPS, (f + frames) * STEPS) for f in first]
        return np.stack([self.z[s] for s in spans]).astype(np.float32), np.stack([self.phones[s] for s in spans])

    def pcm_crops(self, first: np.ndarray, frames: int, margin: int = 0) -> np.ndarray:
        """Samples [B, margin + frames * 1920 + margin] float32, zeros beyond the ends."""
        assert self.pcm is not None
        out = np.zeros((len(first), frames * FRAME + 2 * margin), dtype=np.float32)
        for row, f in zip(out, first, strict=True):
            low, high = int(f) * FRAME - margin, (int(f) + frames) * FRAME + margin
            a, b = max(low, 0), min(high, len(self.pcm))
            row[a - low : b - low] = self.pcm[a:b] / 32768.0
        return out


def load(data: Path, sound: bool, first: int = 0, last: int = 10_000, shard: int = 500) -> Speech:
    """The finished shards from `first` to before `last` (those with sound only, when it is asked for)."""
    lines = (data / "train.jsonl").read_text().splitlines()
    texts, frames, zs, phones, pcms = [], [], [], [], []
    for path in sorted(data.glob("[0-9]*.npz")):
        if "partial" in path.name or not first <= int(path.stem) < last:
            continue
        parts = np.load(path)
        if sound and "pcm" not in parts:
            continue
        line = int(path.stem) * shard
        texts += [json.loads(text)["text"] for text in lines[line : line + len(parts["frames"])]]
        frames.append(parts["frames"])
        zs.append(parts["z"])
        phones.append(parts["phones"])
        if sound:
            pcms.append(parts["pcm"])
    starts = np.concatenate([[0], np.cumsum(np.concatenate(frames))])
    return Speech(texts, starts, np.concatenate(zs), np.concatenate(phones), np.concatenate(pcms) if pcms else None)


def replace_sound(data: Path, out: Path, pcm: np.ndarray) -> None:
    """The shards of `data` that have sound, with this one instead, in `out`."""
    # pcm: [frames * 1920] int16, of all of them
    out.mkdir(parents=True, exist_ok=True)
    shutil.copy(data / "train.jsonl", out)
    begin = 0
    for path in sorted(data.glob("[0-9]*.npz")):
        parts = dict(np.load(path))
        if "partial" in path.name or "pcm" not in parts:
            continue
        end = begin + len(parts["pcm"])
        partial = out / f"{path.stem}.partial.npz"
        np.savez(partial, **parts | {"pcm": pcm[begin:end]})
        partial.rename(out / path.name)
        begin = end
