"""What every build reads: a passage in windows of tokens, and prompts to go on from.

The passage is "The Ponds", from Henry David Thoreau's *Walden* (1854, in the public domain; the text is Project
Gutenberg's number 205, with a paragraph on a line and straight quotation marks).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from ouzel.errors import CheckpointError, RequestError

__all__ = ["CONTEXT", "PASSAGE", "WINDOW", "read_ids", "read_prompts", "windows"]

Ids = tuple[int, ...]

PASSAGE = Path(__file__).with_name("walden.txt")
_PROMPTS = Path(__file__).with_name("prompts.txt")
WINDOW = 512
#: tokens of a window that are read and not scored
CONTEXT = WINDOW // 2


def read_ids(folder: Path, texts: Sequence[str]) -> list[Ids]:
    """Texts as the checkpoint's tokenizer has them, without special tokens.

    :raises CheckpointError: when the folder has no tokenizer.json
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise CheckpointError(f"{file} is missing; it says what the tokens of the text are")
    tokenizer = Tokenizer.from_file(str(file))
    return [tuple(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]


def read_prompts() -> list[str]:
    return _PROMPTS.read_text(encoding="utf-8").splitlines()


def windows(ids: Sequence[int], size: int = WINDOW) -> list[Ids]:
    """Whole pieces of `size` tokens, each begins in the middle of the one before: its first half is context.

    So every token after the first half window is scored once, after at least half a window.

    :raises RequestError: when the text is shorter than one window, or a window has no halves
    """
    if size < 2 or size % 2:
        raise RequestError(f"a window of {size} tokens has no halves; expected an even number", param="window")
    if len(ids) < size:
        raise RequestError(f"the text has {len(ids)} tokens; a window takes {size}", param="text")
    step = size // 2
    return [tuple(ids[start : start + size]) for start in range(0, len(ids) - size + 1, step)]
