from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.errors import RequestError, TextTooLongError
from ouzel.text.sentences import LONGEST_PIECE
from ouzel.text.voice_text import TextMode, prepare, spoken_sentences


def test_a_voice_that_asks_for_words_gets_small_letters_and_no_digits() -> None:
    assert prepare("Dr. Who has 12 Daleks & a TARDIS.", "normalize") == "doctor who has twelve daleks and a tardis."


def test_a_published_voice_reads_the_text_as_it_is() -> None:
    assert prepare("Dr. Who has 12 e\u0301clairs & a TARDIS.", "raw") == "Dr. Who has 12 éclairs & a TARDIS."


def test_sentences_are_split_before_their_marks_are_words() -> None:
    expected = ["it is three point five.", "good!", "mister x left."]
    assert spoken_sentences("It is 3.5. Good! Mr. X left.", "normalize") == expected


def test_a_sentence_that_grew_too_long_in_words_is_cut_again() -> None:
    found = spoken_sentences(" ".join(["777777"] * 40) + ".", "normalize")
    assert len(found) > 2
    assert max(map(len, found)) <= LONGEST_PIECE


@pytest.mark.parametrize("mode", ["normalize", "raw"])
def test_a_blank_text_is_refused(mode: TextMode) -> None:
    with pytest.raises(RequestError, match="a text to speak is needed"):
        spoken_sentences(" \n", mode)


def test_a_text_of_which_nothing_can_be_said_is_refused_with_what_it_was() -> None:
    with pytest.raises(RequestError, match="nothing in '🙂 🙂' can be said"):
        spoken_sentences("🙂 🙂", "normalize")


def test_a_text_beyond_the_limit_is_refused() -> None:
    assert spoken_sentences("a" * 10, "raw", longest=10) == ["a" * 10]
    with pytest.raises(TextTooLongError, match="11 letters are more than the 10"):
        spoken_sentences("a" * 11, "raw", longest=10)


@given(st.text(max_size=200))
def test_no_sentence_is_blank_or_too_long(text: str) -> None:
    for mode in ("normalize", "raw"):
        try:
            found = spoken_sentences(text, mode)
        except RequestError:
            continue
        assert all(sentence == sentence.strip() and 0 < len(sentence) <= LONGEST_PIECE for sentence in found)
