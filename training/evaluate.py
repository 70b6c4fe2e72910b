"""How well strangers understand the voice: word error rates by Whisper, beside the teacher's, and how fast it speaks.

Half of the sentences come from WordNet and fortunes, a quarter are an assistant's replies, a quarter hold numbers,
names and questions; none of them, nor its source entry or template, is in the training data. `--dev` takes those on
which settings are chosen instead. The voice is run as the product runs it, from the exported folder.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from checkpoints import read
from codec_encoder import Codec
from geometry import RATE
from judge import Judge, base_model, error_rate, tiny_model
from teacher import Teacher, to_frame_clock

from ouzel.config import load_config
from ouzel.in_process import InProcess, Wishes
from ouzel.models.qwen3_tts.checkpoint import load_codec_decoder
from ouzel.stages.core import FinishReason, SamplingWishes


@dataclass(slots=True)
class Spoken:
    """One sentence as the voice said it."""

    samples: np.ndarray
    seconds: float
    first_s: float
    finish: FinishReason | None


def held_out(data: Path, count: int, *, dev: bool = False) -> list[dict[str, str]]:
    """`count` sentences in a fixed order, the found ones first."""
    lines = [json.loads(line) for line in (data / ("dev.jsonl" if dev else "test.jsonl")).read_text().splitlines()]
    found = [s for s in lines if s["source"] in {"wordnet", "fortune"}]
    made = [s for s in lines if s not in found]
    kinds = [[s for s in made if s["source"] == kind] for kind in sorted({s["source"] for s in made}, reverse=True)]
    return found[: count // 2] + [s for kind in kinds for s in kind[: count // 2 // len(kinds)]]


def leading_silence_ms(samples: np.ndarray) -> float:
    """Time until the sound first passes 2 % of its loudest sample."""
    loud = np.flatnonzero(np.abs(samples) > 0.02 * max(np.abs(samples).max(), 1e-3))
    return 1000 * float(loud[0] if len(loud) else len(samples)) / RATE


def say(voice: InProcess, text: str, seed: int, streaming: bool) -> Spoken:
    """Speak through the product's pipeline."""
    begin, first, finish, parts = time.perf_counter(), 0.0, None, []
    for sound in voice.speak(text, Wishes(sampling=SamplingWishes(seed=seed), streaming_layout=streaming)):
        first = first or time.perf_counter() - begin
        parts.append(sound.samples)
        finish = sound.finish
    return Spoken(np.concatenate(parts), time.perf_counter() - begin, first, finish)


class TeacherHeard:
    """What the judge hears of the teacher, and how long that is, kept in a file: it is always the same."""

    def __init__(self, file: Path, teacher: Teacher, judge: Judge) -> None:
        self.file, self.teacher, self.judge = file, teacher, judge
        self.known: dict[str, tuple[str, int]] = json.loads(file.read_text()) if file.exists() else {}

    def hear(self, text: str) -> tuple[str, int]:
        if text not in self.known:
            sound = self.teacher.sound(self.teacher.latents(text)[0])
            self.known[text] = self.judge.hear(sound), len(sound)
        return self.known[text]

    def keep(self) -> None:
        self.file.write_text(json.dumps(self.known))


def by_source(sentences: list[dict[str, str]], pairs: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """The (wanted, heard) pairs of each kind of sentence; every sentence has the same number of them."""
    each, found = len(pairs) // len(sentences), defaultdict(list)
    for place, pair in enumerate(pairs):
        found[sentences[place // each]["source"]].append(pair)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("voice", type=Path, help="exported folder")
    parser.add_argument("data", type=Path, help="folder with heldout.jsonl; the judge is put together in it")
    parser.add_argument("--codec", type=Path, help="checkpoint of train_latent.py: also judge the codec alone")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--dev", action="store_true", help="the sentences on which settings are chosen")
    parser.add_argument("--streaming", action="store_true", help="text beside the frames")
    parser.add_argument("--tiny", action="store_true", help="the smaller judge, for a quick look")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the voice")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--show", action="store_true", help="print what was heard")
    args = parser.parse_args()
    sentences = held_out(args.data, args.sentences, dev=args.dev)
    settings = dict(setting.split("=", 1) for setting in args.set)
    voice = InProcess.load(args.voice, load_config(("qwen3_tts",), flags=settings).config, threads=args.threads)
    judge = Judge(tiny_model() if args.tiny else base_model(args.data), args.threads)
    teacher = Teacher(args.data, args.threads, seed=99)
    beside = TeacherHeard(args.data / f"teacher-heard-{'tiny' if args.tiny else 'base'}.json", teacher, judge)
    codec, decoder = None, None
    if args.codec:
        codec = Codec()
        codec.load_state_dict(read(args.codec)["codec"])
        decoder = load_codec_decoder(args.voice)
    heard: dict[str, list[tuple[str, str]]] = {"voice": [], "teacher": [], "codec": []}
    spoken: list[Spoken] = []
    pace: list[float] = []
    say(voice, "One sentence to warm up.", 0, args.streaming)
    for sentence in sentences:
        text = sentence["text"]
        understood, length = beside.hear(text)
        heard["teacher"].append((text, understood))
        if codec is not None and decoder is not None:
            z100, _, _ = to_frame_clock(*teacher.latents(text))
            with torch.inference_mode():
                again = decoder(codec.encode(torch.from_numpy(z100.astype(np.float32))[None]))[0].numpy()
            heard["codec"].append((text, judge.hear(again)))
        for seed in range(args.seeds):
            spoken.append(say(voice, sentence["written"], seed, args.streaming))
            heard["voice"].append((text, judge.hear(spoken[-1].samples)))
            pace.append(len(spoken[-1].samples) / length)
        if args.show:
            print(text, *(pairs[-1][1] for pairs in heard.values() if pairs), sep="\n    ", flush=True)
    beside.keep()
    audio = sum(len(s.samples) for s in spoken) / RATE
    figures = {
        "wer": round(error_rate(heard["voice"]), 4),
        "teacher_wer": round(error_rate(heard["teacher"]), 4),
        "codec_wer": round(error_rate(heard["codec"]), 4) if codec is not None else None,
        **{f"wer_{kind}": round(error_rate(pairs), 4) for kind, pairs in by_source(sentences, heard["voice"]).items()},
        "rtf": round(sum(s.seconds for s in spoken) / audio, 4),
        "first_audio_ms": round(1000 * statistics.median(s.first_s for s in spoken), 1),
        "runaways": sum(s.finish == FinishReason.LENGTH for s in spoken),
        "length_ratio": round(statistics.median(pace), 3),
        "leading_silence_ms": round(max(leading_silence_ms(s.samples) for s in spoken), 1),
        "silent": sum(float(np.abs(s.samples).max()) < 0.01 for s in spoken),
        "sentences": len(sentences),
        "seeds": args.seeds,
        "layout": "streaming" if args.streaming else "whole text",
        "judge": "tiny.en" if args.tiny else "base",
        "threads": args.threads,
        "settings": settings,
    }
    print(json.dumps(figures, indent=1))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
