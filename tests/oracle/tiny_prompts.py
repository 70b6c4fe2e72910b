"""What the goldens say, in every variant and layout; `ours` and `official` read these alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seeded import seeded
from tiny_talker import CODEBOOK, GROUPS, HIDDEN

TEXT = "Hello there, the World's 12 words."
REF_TEXT = "hello, user."
FRAMES = 64


@dataclass(frozen=True)
class Case:
    """One request; `frames` of reference codes make it in-context cloning."""

    size: str
    model_type: str
    streaming: bool
    language: str = "english"
    speaker: str | None = None
    instruct: str | None = None
    frames: int | None = None


CASES = {
    "custom": Case("small", "custom_voice", False, speaker="ryan"),
    "custom_streaming": Case("small", "custom_voice", True, speaker="ryan"),
    "custom_auto": Case("small", "custom_voice", False, language="auto", speaker="ryan"),
    "custom_auto_streaming": Case("small", "custom_voice", True, language="auto", speaker="ryan"),
    "dialect": Case("small", "custom_voice", True, language="Chinese", speaker="eric"),
    "dialect_auto": Case("large", "custom_voice", False, language="auto", speaker="eric"),
    "custom_instruct": Case("large", "custom_voice", False, speaker="ryan", instruct="hello, the user"),
    "xvector": Case("small", "base", True),
    "xvector_whole": Case("large", "base", False, language="auto"),
    "icl_long_text": Case("small", "base", True, frames=7),
    "icl_long_reference": Case("large", "base", True, frames=90),
    "icl_whole": Case("small", "base", False, language="auto", frames=9),
    "design": Case("large", "voice_design", False, instruct="A hello voice,\nthe World."),
    "design_streaming": Case("large", "voice_design", True, language="auto", instruct="A hello voice."),
}


def speaker_vector() -> NDArray[np.float32]:
    # -> [H], as large as a row of the codec embedding
    return (seeded("speaker").standard_normal(HIDDEN) / np.sqrt(HIDDEN)).astype(np.float32)


def reference_codes(frames: int) -> NDArray[np.int64]:
    # -> [F, G]
    return seeded("reference").integers(0, CODEBOOK, (frames, GROUPS))


@dataclass(frozen=True)
class Processing:
    """One setting of the samplers; logits and history come from `seeded` by its name."""

    repetition_penalty: float = 1.05
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    drawn: int = 40
    min_frames: int = 2


PROCESSINGS = {
    "published": Processing(),
    "first_frame": Processing(drawn=0),
    "second_frame": Processing(drawn=1, temperature=1.3),
    "strong_penalty": Processing(repetition_penalty=1.7, drawn=300),
    "top_p": Processing(top_p=0.8, temperature=2.5),
    "top_p_alone": Processing(top_k=0, top_p=0.3, temperature=3.0),
    "uncut": Processing(top_k=0, temperature=2.0, repetition_penalty=1.0),
    "narrow": Processing(top_k=1, top_p=0.1),
    "long_minimum": Processing(min_frames=50, top_k=0),
}


def processing_input(name: str, size: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Logits [size] in which the special ids, and the end among them, would often win; codes drawn before."""
    draw = seeded(f"processing.{name}")
    logits = 3 * draw.standard_normal(size).astype(np.float32)
    logits[CODEBOOK:] += 4
    return logits, draw.integers(0, CODEBOOK, PROCESSINGS[name].drawn)
