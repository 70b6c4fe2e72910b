"""Where a request's text comes from: a whole one, or pieces that arrive while it is already spoken."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

from ouzel.errors import RequestError, TextTooLongError
from ouzel.text.sentences import SentenceSplitter
from ouzel.text.voice_text import TextMode, prepare, spoken_sentences

__all__ = ["sentences_of"]


async def sentences_of(
    pieces: AsyncIterable[str], mode: TextMode, longest: int, *, whole: bool = False
) -> AsyncIterator[str]:
    """Sentences, prepared for the voice, each as soon as nothing that follows can change it.

    :param whole: each piece is a sentence or more, whatever follows
    :raises TextTooLongError: when all pieces together have more than `longest` letters.
    :raises RequestError: when nothing in them can be said.
    """
    splitter, letters, said = SentenceSplitter(), 0, False
    async for piece in pieces:
        letters += len(piece)
        if letters > longest:
            raise TextTooLongError(f"text: {letters} letters are more than the {longest} of one request", param="text")
        certain = splitter.feed(piece)
        if whole:
            certain += splitter.flush()
        for sentence in _speakable(certain, mode):
            said = True
            yield sentence
    for sentence in _speakable(splitter.flush(), mode):
        said = True
        yield sentence
    if not said:
        raise RequestError("text: nothing in it can be said", param="text")


def _speakable(found: list[str], mode: TextMode) -> list[str]:
    """Prepared sentences; those that can't be said, which a long text may contain, are left out."""
    sayable = (piece for piece in found if prepare(piece, mode).strip())
    return [sentence for piece in sayable for sentence in spoken_sentences(piece, mode, param="text")]
