from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.text.sentences import LONGEST_PIECE, SentenceSplitter, split_sentences

#: texts in which boundaries, and traps beside them, are frequent
LETTERS = [*"abAB12 .,!?;:\n\t\"'()…。！、é\u0301🙂"]
TRAPS = ["3.14", "22,1", "Dr.", "e.g.", "etc.", "a.m.", "J.", "one", "Two", "  "]
TEXT = st.lists(st.sampled_from(LETTERS + TRAPS)).map("".join)


def stripped(text: str) -> list[str]:
    return [piece.strip() for piece in split_sentences(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Pi is 3.14 and e is 2.718.",
        "Dr. Smith met Mr. J. R. Jones, e.g. on Fig. 3.",
        "See example.com/a.b for U.S. laws on Jan. 5 at 3 p.m. today.",
        "It fell by approx. five percent, etc. and so on.",
        "Well... maybe not, he said.",
        '"Really?" he asked.',
        "1. Wash the rice",
        "a line that is\nwrapped in the middle",
        "Version 1.2.3 costs $4.99!",
        "so there",
    ],
)
def test_these_are_one_sentence(text: str) -> None:
    assert split_sentences(text) == [text]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Hello there. How are you? Fine!", ["Hello there.", "How are you?", "Fine!"]),
        ("It was 1984. Then came 1985. 12 people left.", ["It was 1984.", "Then came 1985.", "12 people left."]),
        ("all small letters. they still end. ok", ["all small letters.", "they still end.", "ok"]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("**Bold.** Then plain (really!) Yes.", ["**Bold.**", "Then plain (really!)", "Yes."]),
        ("Tea, coffee, etc. Come at 5 p.m. We wait.", ["Tea, coffee, etc.", "Come at 5 p.m.", "We wait."]),
        ("It was I. He knew.", ["It was I.", "He knew."]),
        ("Hello.\nSecond line.\nThird.", ["Hello.", "Second line.", "Third."]),
        ("A heading\n\nand a paragraph", ["A heading", "and a paragraph"]),
        ("First item\nSecond item", ["First item", "Second item"]),
        ("1. Wash the rice.\n2. Boil it.", ["1. Wash the rice.", "2. Boil it."]),
        ("你好。今天好吗？很好！", ["你好。", "今天好吗？", "很好！"]),
        ("「行こう。」彼は言った。", ["「行こう。」", "彼は言った。"]),
        ("Really?! No... Yes.", ["Really?!", "No...", "Yes."]),
    ],
)
def test_where_sentences_end(text: str, sentences: list[str]) -> None:
    assert stripped(text) == sentences


@given(TEXT, st.integers(1, 12))
def test_the_pieces_joined_are_the_text_and_none_is_too_long(text: str, longest: int) -> None:
    pieces = split_sentences(text, longest)
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= longest for piece in pieces)


@given(TEXT, st.lists(st.integers(0, 40)), st.sampled_from([5, 12, 300]))
def test_any_chunking_gives_the_same_pieces(text: str, cuts: list[int], longest: int) -> None:
    splitter = SentenceSplitter(longest)
    ends = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    chunks = [text[start:end] for start, end in zip(ends, ends[1:], strict=False)]
    pieces = [piece for chunk in chunks for piece in splitter.feed(chunk)] + splitter.flush()
    assert pieces == split_sentences(text, longest)


@pytest.mark.parametrize("undecided", ["22,", "It is 3.", "Hello. ", "Hello.\n", 'He said "no."', "你好。", "Yes!"])
def test_nothing_is_handed_out_before_it_is_certain(undecided: str) -> None:
    assert SentenceSplitter().feed(undecided) == []


def test_a_sentence_is_handed_out_with_the_first_letter_of_the_next() -> None:
    splitter = SentenceSplitter()
    assert splitter.feed("It is 3.") == []
    assert splitter.feed("14 or so. ") == []
    assert splitter.feed("N") == ["It is 3.14 or so. "]
    assert splitter.flush() == ["N"]
    assert splitter.flush() == []


def test_blanks_after_a_sentence_belong_to_it() -> None:
    assert split_sentences("  One.  \n Two.\n\n") == ["  One.  \n ", "Two.\n\n"]


def test_a_long_sentence_is_cut_after_a_clause() -> None:
    assert split_sentences("one two three, four five six seven", 20) == ["one two three, ", "four five six seven"]


def test_a_long_sentence_without_clauses_is_cut_at_a_blank() -> None:
    assert split_sentences("one two three four five", 10) == ["one two ", "three ", "four five"]


def test_an_endless_word_is_cut_but_never_before_a_combining_mark() -> None:
    pieces = split_sentences("e\u0301" * 10, 5)
    assert "".join(pieces) == "e\u0301" * 10
    assert all(piece[0] == "e" for piece in pieces)


@pytest.mark.parametrize("noise", ["a" * 99_999, "." * 99_999, " " * 99_999, "a" + "\u0301" * 99_999, "a. " * 33_333])
def test_hostile_text_is_split_all_the_same(noise: str) -> None:
    pieces = split_sentences(noise)
    assert "".join(pieces) == noise
    assert max(map(len, pieces)) <= LONGEST_PIECE


def test_every_sentence_of_a_long_text_is_there_in_order() -> None:
    sentences = [f"This is sentence number {n}, and it goes on for a while." for n in range(1, 40)]
    assert stripped(" ".join(sentences)) == sentences
