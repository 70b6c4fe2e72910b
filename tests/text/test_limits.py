from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.errors import RequestError, TextTooLongError
from ouzel.text.limits import LONGEST_TEXT, check_text, decode_text


@pytest.mark.parametrize("text", ["", "   \n", "\x00\x07", "\ufeff \t"])
def test_a_text_without_anything_to_say_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="input: a text to speak is needed") as caught:
        check_text(text)
    assert caught.value.param == "input"


def test_a_text_may_have_4096_letters_and_no_more() -> None:
    assert len(check_text("a" * LONGEST_TEXT)) == 4096
    with pytest.raises(TextTooLongError, match="text: 4097 letters are more than the 4096") as caught:
        check_text("a" * 4097, param="text")
    assert caught.value.param == "text"


def test_half_a_surrogate_pair_is_named() -> None:
    with pytest.raises(RequestError, match=r"U\+D83D, at letter 2"):
        check_text("ab\ud83d")


def test_control_characters_go_tab_and_newline_stay() -> None:
    assert check_text("a\x00b\x1b[1mc\td\r\ne\x7f") == "ab[1mc\td\r\ne"


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=50))
def test_a_text_comes_out_composed_and_once_is_enough(text: str) -> None:
    text = f"a{text}"
    checked = check_text(text)
    assert checked == unicodedata.normalize("NFC", text) == check_text(checked)


def test_bytes_that_are_not_utf8_are_named() -> None:
    with pytest.raises(RequestError, match="input: not UTF-8: byte 0xE9 at offset 3") as caught:
        decode_text(b"caf\xe9")
    assert (caught.value.param, caught.value.exit_code) == ("input", 2)


def test_a_byte_order_mark_is_no_text() -> None:
    assert decode_text(b"\xef\xbb\xbfcaf\xc3\xa9") == "café"
