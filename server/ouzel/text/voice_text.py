"""Text as a voice reads it: in words where the voice asks for that, and in sentences."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Literal

from ouzel.errors import RequestError
from ouzel.text.limits import LONGEST_TEXT, check_text
from ouzel.text.normalize import normalize_english
from ouzel.text.sentences import LONGEST_PIECE, split_sentences

__all__ = ["TextMode", "prepare", "spoken_sentences"]

#: `normalize`: English words in small letters, as our own voices were trained; `raw`: as the published models read.
TextMode = Literal["normalize", "raw"]


def prepare(text: str, mode: TextMode) -> str:
    """One sentence for the tokenizer; empty where nothing in it can be said."""
    return normalize_english(text).lower() if mode == "normalize" else unicodedata.normalize("NFC", text).strip()


def spoken_sentences(text: str, mode: TextMode, *, longest: int = LONGEST_TEXT, param: str = "input") -> list[str]:
    """The sentences of a whole text, prepared, none above `LONGEST_PIECE` letters.

    :raises TextTooLongError: when the text has more than `longest` letters
    :raises RequestError: when nothing in it can be said
    """
    found = list(_sentences(check_text(text, longest=longest, param=param), mode))
    if not found:
        raise RequestError(f"{param}: nothing in {text.strip()[:40]!r} can be said", param=param)
    return found


def _sentences(text: str, mode: TextMode) -> Iterator[str]:
    for piece in split_sentences(text):
        said = prepare(piece, mode)
        # Digits become longer as words.
        for part in [said] if len(said) <= LONGEST_PIECE else split_sentences(said):
            if part.strip():
                yield part.strip()
