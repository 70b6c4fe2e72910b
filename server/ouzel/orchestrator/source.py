"""Where a request's text comes from: pieces that arrive while it is already spoken."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator
from typing import NamedTuple

from ouzel.errors import RequestError, TextTooLongError
from ouzel.text.sentences import SentenceSplitter
from ouzel.text.voice_text import TextMode, prepare, spoken_sentences

__all__ = ["Words", "words_of"]

_LAST_WORD = re.compile(r"\S*\Z")


class Words(NamedTuple):
    """Text that nothing can change any more."""

    text: str
    #: the sentence ends with it
    whole: bool = True


async def words_of(
    pieces: AsyncIterable[str], mode: TextMode, longest: int, *, whole: bool = False, streaming: bool = False
) -> AsyncIterator[Words]:
    """Text for the voice, as soon as nothing that follows can change it: sentences, or in the streaming layout words.

    A voice that reads normalized text gets sentences all the same: what a word means is known at their end.

    :param whole: each piece is a sentence or more, whatever follows
    :raises TextTooLongError: when all pieces together have more than `longest` letters.
    :raises RequestError: when nothing in them can be said.
    """
    said, bounded = False, _bounded(pieces, longest)
    by_word = streaming and mode == "raw" and not whole
    async for words in _single_words(bounded) if by_word else _sentences(bounded, mode, whole):
        said = said or bool(words.text.strip())
        yield words
    if not said:
        raise RequestError("text: nothing in it can be said", param="text")


async def _sentences(pieces: AsyncIterable[str], mode: TextMode, whole: bool) -> AsyncIterator[Words]:
    splitter = SentenceSplitter()
    async for piece in pieces:
        certain = splitter.feed(piece)
        if whole:
            certain += splitter.flush()
        for sentence in _speakable(certain, mode):
            yield Words(sentence)
    for sentence in _speakable(splitter.flush(), mode):
        yield Words(sentence)


async def _single_words(pieces: AsyncIterable[str]) -> AsyncIterator[Words]:
    splitter, ahead = SentenceSplitter(), 0  # letters of the unfinished sentence that were handed out
    async for piece in pieces:
        for sentence in splitter.feed(piece):
            yield Words(sentence[ahead:])
            # A sentence that is too long is cut at a clause, which may lie before what was handed out.
            ahead = max(0, ahead - len(sentence))
        certain = len(_LAST_WORD.sub("", splitter.rest))
        if certain > ahead:
            yield Words(splitter.rest[ahead:certain], whole=False)
            ahead = certain
    yield Words("".join(splitter.flush())[ahead:])


async def _bounded(pieces: AsyncIterable[str], longest: int) -> AsyncIterator[str]:
    letters = 0
    async for piece in pieces:
        letters += len(piece)
        if letters > longest:
            raise TextTooLongError(f"text: {letters} letters are more than the {longest} of one request", param="text")
        yield piece


def _speakable(found: list[str], mode: TextMode) -> list[str]:
    """Prepared sentences; those that can't be said, which a long text may contain, are left out."""
    sayable = (piece for piece in found if prepare(piece, mode).strip())
    return [sentence for piece in sayable for sentence in spoken_sentences(piece, mode, param="text")]
