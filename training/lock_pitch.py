"""Lock the teacher's pitch to the codec's clock, so that the sound follows from the codes, phase and all.

Where in its period a voice stands when a frame begins follows from all that it sang before, and a causal decoder can't
add that up: told to reproduce the teacher's spectra it learned noise of the right colour, a whisper. So the decoder is
given a teacher whose voiced frames hold a whole number of periods each, with a pulse at the frame's beginning. Then the
waveform itself can be the target. A step of pitch is 12.5 Hz, two semitones at this speaker's 88 Hz.

How many periods a frame has is told by its codes, by least squares from the entries of this frame and of two before it:
what the codes don't say of the pitch, nobody could learn. Pulses are moved by pitch-synchronous overlap-add (Moulines
and Charpentier 1990); what has no pitch stays as it is.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import parselmouth
import shards
import torch
from checkpoints import read
from codec_encoder import Codec
from geometry import CODES, FRAME, GROUPS, RATE
from parselmouth.praat import call
from scipy.signal import butter, sosfiltfilt
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import lsqr
from train_decoder import encode_all

LOWEST, HIGHEST = 60.0, 200.0  # Hz, of this speaker
FEWEST, MOST = 5, 11  # periods of a frame
SEEN = 3  # frames whose codes tell the pitch of the last one
HOP = RATE // 200  # samples between the grains of what has no pitch
GLOTTAL = butter(2, (800, 4000), "bandpass", fs=RATE, output="sos")  # Hz; where a pulse stands out of its ringing


@dataclass(slots=True)
class Pulses:
    """One stretch of voice."""

    at: np.ndarray  # samples, rising
    gaps: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.gaps = np.diff(self.at)


def voiced(pcm: np.ndarray) -> list[Pulses]:
    """Praat's glottal pulses, by stretches; each pulse moved to the centre of its period's energy."""
    # pcm: [n] -1..1
    sound = parselmouth.Sound(pcm.astype(np.float64), RATE)
    pitch = sound.to_pitch_ac(0.01, LOWEST, pitch_ceiling=HIGHEST)
    process = call([sound, pitch], "To PointProcess (cc)")
    count = call(process, "Get number of points")
    marks = np.array([call(process, "Get time from index", i + 1) for i in range(count)]) * RATE
    cuts = np.flatnonzero(np.diff(marks) > 1.25 * RATE / LOWEST) + 1
    energy = sosfiltfilt(GLOTTAL, pcm) ** 2
    return [Pulses(centred(run, energy)) for run in np.split(marks, cuts) if len(run) > 2]


def centred(marks: np.ndarray, energy: np.ndarray) -> np.ndarray:
    """Praat begins each stretch at its own loudest sample, so the marks of two stretches lie at other phases."""
    periods = np.gradient(marks)
    centre = np.zeros(len(marks), dtype=complex)
    for i, (mark, period) in enumerate(zip(marks, periods, strict=True)):
        n = np.arange(int(mark - 1.5 * period), int(mark + 1.5 * period) + 1)
        weight = energy.take(n, mode="clip") * (1 + np.cos(2 * np.pi * (n - mark) / (3 * period)))
        centre[i] = (weight * np.exp(2j * np.pi * (n - mark) / period)).sum() / (weight.sum() + 1e-9)
    smooth = np.convolve(np.pad(centre, 3, mode="edge"), np.ones(7), mode="valid")
    turn = np.unwrap(np.angle(smooth)) / (2 * np.pi)
    return np.maximum.accumulate(marks + (turn - np.rint(np.median(turn))) * periods)


def periods_of(pulses: list[Pulses], frames: int) -> np.ndarray:
    """Periods that fit into a frame, [frames]; 0 where there is no voice."""
    total, count = np.zeros(frames), np.zeros(frames)
    for run in pulses:
        frame = ((run.at[:-1] + run.at[1:]) / 2 // FRAME).astype(int).clip(0, frames - 1)
        np.add.at(total, frame, run.gaps)
        np.add.at(count, frame, 1)
    return np.divide(FRAME * count, total, out=np.zeros(frames), where=total > 0)


def told_by_codes(codes: np.ndarray, starts: np.ndarray, periods: np.ndarray) -> np.ndarray:
    """The number of periods that a frame's codes call for: [frames] int, also where there is no voice."""
    # codes: [frames, G], periods: [frames], 0 where there is no voice
    begin = np.repeat(starts[:-1], np.diff(starts))
    frame = np.arange(len(codes))
    seen = [np.maximum(frame - back, begin) for back in range(SEEN)]
    columns = [
        codes[at, group] + CODES * (group + GROUPS * back) for back, at in enumerate(seen) for group in range(GROUPS)
    ]
    place, width = np.stack(columns, 1).ravel(), len(columns)
    entries = csr_matrix(
        (np.ones(len(place)), place, np.arange(len(codes) + 1) * width), shape=(len(codes), CODES * width)
    )
    sung = periods > 0
    mean = periods[sung].mean()
    found = lsqr(entries[sung], periods[sung] - mean, damp=3.0, iter_lim=60)[0]
    told = entries @ found + mean
    left = 1 - ((told - periods)[sung] ** 2).sum() / ((periods[sung] - mean) ** 2).sum()
    print(f"codes tell {left:.0%} of the pitch's variance", flush=True)
    return np.rint(told).astype(int).clip(FEWEST, MOST)


class Overlap:
    """Grains added up, and the weight of their windows."""

    def __init__(self, source: np.ndarray) -> None:
        self.source = source
        self.sum, self.weight = np.zeros(len(source)), np.zeros(len(source))

    def add(self, taken: float, put: float, left: float, right: float) -> None:
        """The grain around `taken`, from `left` samples before it to `right` after it, around `put`."""
        a, b = int(round(left)), int(round(right))
        window = np.concatenate(
            [0.5 - 0.5 * np.cos(np.pi * (np.arange(a) + 0.5) / a), 0.5 + 0.5 * np.cos(np.pi * (np.arange(b) + 0.5) / b)]
        )
        n = np.arange(-a, b)
        at = n + int(round(put))
        inside = (at >= 0) & (at < len(self.sum))
        grain = self.source.take(n + int(round(taken)), mode="clip") * window
        self.sum[at[inside]] += grain[inside]
        self.weight[at[inside]] += window[inside]

    def sound(self) -> np.ndarray:
        return self.sum / self.weight.clip(min=0.3)


def lock(pcm: np.ndarray, pulses: list[Pulses], periods: np.ndarray) -> np.ndarray:
    """The same speech with `periods` of them in each voiced frame."""
    # pcm: [frames * 1920], periods: [frames] -> [frames * 1920]
    made, done = Overlap(pcm), 0.0
    for run in pulses:
        begin, end = run.at[0], run.at[-1]
        done = copy(made, done, begin - HOP / 2)
        frames = range(max(int(begin // FRAME), 0), min(int(end // FRAME) + 1, len(periods)))
        beats = np.concatenate([f * FRAME + np.arange(periods[f]) * FRAME / periods[f] for f in frames])
        for beat in beats[(beats >= begin - RATE * 0.003) & (beats <= end)]:
            i = int(np.abs(run.at - beat).argmin())
            made.add(run.at[i], beat, run.gaps[max(i - 1, 0)], run.gaps[min(i, len(run.gaps) - 1)])
        done = end + HOP / 2
    copy(made, done, len(pcm))
    return made.sound()


def copy(made: Overlap, begin: float, end: float) -> float:
    """What has no pitch, as it is; where it ended."""
    while begin < end:
        made.add(begin, begin, HOP, HOP)
        begin += HOP
    return begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of teacher.py")
    parser.add_argument("codec", type=Path, help="checkpoint of train_latent.py")
    parser.add_argument("out", type=Path, help="folder for the same shards with another pitch")
    args = parser.parse_args()
    torch.set_num_threads(1)
    codec = Codec()
    codec.load_state_dict(read(args.codec)["codec"])
    speech = shards.load(args.data, sound=True)
    assert speech.pcm is not None
    spans = list(zip(speech.starts[:-1] * FRAME, speech.starts[1:] * FRAME, strict=True))
    sentences = [speech.pcm[a:b] / 32768 for a, b in spans]
    pulses = [voiced(pcm) for pcm in sentences]
    measured = [periods_of(runs, len(pcm) // FRAME) for runs, pcm in zip(pulses, sentences, strict=True)]
    told = told_by_codes(encode_all(codec, speech), speech.starts, np.concatenate(measured))
    for pcm, runs, (a, b) in zip(sentences, pulses, spans, strict=True):
        locked = lock(pcm, runs, told[a // FRAME : b // FRAME])
        speech.pcm[a:b] = (locked.clip(-1, 1) * 32767).astype(np.int16)
    shards.replace_sound(args.data, args.out, speech.pcm)


if __name__ == "__main__":
    main()
