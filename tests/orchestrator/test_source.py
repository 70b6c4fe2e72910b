from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ouzel.errors import RequestError, TextTooLongError
from ouzel.orchestrator.source import words_of
from ouzel.text.sentences import LONGEST_PIECE

TEXT = "It is 3.5 now, they say. Really!\nYes: really. "


async def pieces(text: str, size: int) -> AsyncIterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


async def sentences(text: str, size: int) -> list[str]:
    """What comes out, joined up to each end of a sentence."""
    found = [""]
    async for words, whole in words_of(pieces(text, size), "raw", 4096, streaming=True):
        found[-1] += words
        found += [""] if whole else []
    return found


@pytest.mark.parametrize("size", [1, 2, 7, 100])
async def test_words_make_up_the_text_and_its_sentences_however_they_come(size: int) -> None:
    assert await sentences(TEXT, size) == ["It is 3.5 now, they say. ", "Really!\n", "Yes: really. ", ""]


@pytest.mark.parametrize("size", [1, 40])
async def test_a_sentence_without_an_end_is_cut_and_nothing_of_it_is_lost(size: int) -> None:
    text = "one, two, three " * 60
    found = await sentences(text, size)
    assert "".join(found) == text and len(found) > 3
    assert max(map(len, found)) <= LONGEST_PIECE + len("three one, two, three ")


async def test_a_word_waits_for_the_blank_behind_it() -> None:
    found = [words async for words in words_of(pieces("20", 1), "raw", 99, streaming=True)]
    assert found == [("20", True)]
    first = await anext(words_of(pieces("20 26", 1), "raw", 99, streaming=True))
    assert first == ("20 ", False)


async def test_a_voice_of_normalized_text_gets_whole_sentences() -> None:
    found = [words async for words in words_of(pieces("No. 5 is up. Yes.", 3), "normalize", 99, streaming=True)]
    assert found == [("number five is up.", True), ("yes.", True)]


@pytest.mark.parametrize("mode", ["raw", "normalize"])
async def test_too_much_and_nothing_are_errors(mode: str) -> None:
    with pytest.raises(TextTooLongError):
        [words async for words in words_of(pieces("word " * 5, 4), mode, 20, streaming=True)]  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="nothing in it can be said"):
        [words async for words in words_of(pieces("  \n ", 1), mode, 20, streaming=True)]  # type: ignore[arg-type]
