from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.text.normalize import normalize_english

WORD = st.text(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Pi is 3.14 and e is 2.718.", "Pi is three point one four and e is two point seven one eight."),
        ("It took 1,000.50, .5 and 007.", "It took one thousand point five zero, point five and zero zero seven."),
        ("1,234,567 people", "one million two hundred thirty-four thousand five hundred sixty-seven people"),
        ("It was -7 or 3-4.", "It was minus seven or three to four."),
        ("12345678901234567", "one two three four five six seven eight nine zero one two three four five six seven"),
        ("5*3*2 = 30", "five times three times two equals thirty"),
        ("2+2=4, 5-3=2, 5 - 3", "two plus two equals four, five minus three equals two, five minus three"),
        ("Call 555-123-4567.", "Call five five five, one two three, four five six seven."),
        ("Version 1.2.3", "Version one dot two dot three"),
        ("the ratio 3:2, number #1, open 24/7", "the ratio three to two, number number one, open twenty-four seven"),
        ("an MP3 and 10k users of B2B", "an M P three and ten thousand users of B two B"),
    ],
)
def test_numbers(written: str, said: str) -> None:
    assert normalize_english(written) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("the 1st, 2nd, 3rd and 101st", "the first, second, third and one hundred first"),
        ("1984, 1905, 2000, 2005", "nineteen eighty-four, nineteen oh-five, two thousand, two thousand five"),
        ("the 1980s, the '90s, the 1900s", "the nineteen eighties, the nineties, the nineteen hundreds"),
        ("in 1066", "in ten sixty-six"),
        ("1990–1995", "nineteen ninety to nineteen ninety-five"),
        ("March 5, 2024", "March fifth, twenty twenty-four"),
        ("the 5th of May 2020", "the fifth of May, twenty twenty"),
        ("4 July 1776", "July fourth, seventeen seventy-six"),
        ("Sept. 3 and May 2020", "September third and May twenty twenty"),
        ("2024-03-05", "March fifth, twenty twenty-four"),
        ("3/5/2024 or 25/12/2023", "March fifth, twenty twenty-four or December twenty-fifth, twenty twenty-three"),
        ("13/13/2024", "thirteen slash thirteen slash twenty twenty-four"),
    ],
)
def test_ordinals_years_and_dates(written: str, said: str) -> None:
    assert normalize_english(written) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("at 3:45 pm", "at three forty-five P M"),
        ("at 7:05 a.m. and 11 p.m. The end.", "at seven oh five A M and eleven P M. The end."),
        ("12:00, 15:00, 00:30", "twelve o'clock, fifteen hundred, zero thirty"),
        ("1:02:03", "one oh two and three seconds"),
        ("29:99", "twenty-nine to ninety-nine"),
    ],
)
def test_times(written: str, said: str) -> None:
    assert normalize_english(written) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("$5.50, $1, $0.99, $0.01", "five dollars and fifty cents, one dollar, ninety-nine cents, one cent"),
        ("$3 million and $1.5bn", "three million dollars and one point five billion dollars"),
        ("-$5 or €20-30 or 9 USD", "minus five dollars or twenty to thirty euros or nine U S dollars"),
        ("$5/month", "five dollars per month"),
        ("50% or 3.5 %", "fifty percent or three point five percent"),
        ("20°C, 1°, -5 °F", "twenty degrees Celsius, one degree, minus five degrees Fahrenheit"),
        ("1 km, 5km at 10 km/h", "one kilometer, five kilometers at ten kilometers per hour"),
        ("80 ms at 24 kHz", "eighty milliseconds at twenty-four kilohertz"),
        ("It is 5 ft. tall. It is 5 km. Then", "It is five feet tall. It is five kilometers. Then"),
        ("5 m² or 5 km^2", "five square meters or five square kilometers"),
        ("½ cup, 2½ cups, 3/4 mile, 5/8", "one half cup, two and a half cups, three quarters mile, five eighths"),
    ],
)
def test_money_percentages_and_units(written: str, said: str) -> None:
    assert normalize_english(written) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Dr. Smith and Mrs. Jones, Jr. met.", "Doctor Smith and Missus Jones, Junior met."),
        ("St. Mary's on Elm St. near Mt. Hood", "Saint Mary's on Elm Street near Mount Hood"),
        ("fruit, e.g. apples, etc.", "fruit, for example apples, et cetera."),
        ("No. 5. I said no. Really.", "number five. I said no. Really."),
        ("The U.S. economy. I live in the U.S.", "The U S economy. I live in the U S."),
        ("AT&T's CPUs, the FBI and NASA", "A T and T's C P U's, the F B I and NASA"),
        ("with w/o and/or", "with without and or"),
        ("Mail a.b@example.com.", "Mail a dot b at example dot com."),
        ("See https://www.example.com/path?x=1.", "See example dot com slash path question mark x equals one."),
        ("Visit example.com, run main.py now.", "Visit example dot com, run main dot py now."),
    ],
)
def test_abbreviations_and_addresses(written: str, said: str) -> None:
    assert normalize_english(written) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("This is *very* **important**.", "This is very important."),
        ("“Hello… it’s fine!”", '"Hello, it\'s fine!"'),
        ("one (two) three — four -- five", "one, two, three, four, five"),
        ("salt & pepper @ home", "salt and pepper at home"),
        ("naïve café, Ærø, Straße", "naive cafe, Aero, Strasse"),
        ("Hello.\nSecond line.\tThird", "Hello. Second line. Third"),
        ("Really?! No... Yes.", "Really? No. Yes."),
        ("٣ apples", "three apples"),
        ("🙂 ok ✓", "ok"),
        ("🙂", ""),
    ],
)
def test_symbols_and_punctuation(written: str, said: str) -> None:
    assert normalize_english(written) == said


def test_decomposed_letters_are_said_like_composed_ones() -> None:
    text = "schön Tür"
    assert normalize_english(unicodedata.normalize("NFD", text)) == normalize_english(text) == "schon Tur"


def test_a_mark_on_no_letter_has_no_sound() -> None:
    assert normalize_english("\u0301" * 300) == ""
    assert normalize_english("a \u0301\u0301 b") == "a b"
    assert normalize_english("\u0928\u092e\u0938\u094d\u0924\u0947") == "\u0928\u092e\u0938\u094d\u0924\u0947"


@given(st.text())
def test_the_output_is_letters_blanks_and_basic_punctuation(text: str) -> None:
    said = normalize_english(text)
    strange = {char for char in said if unicodedata.category(char)[0] not in "LM"} - set(" .,?!;:'-\"")
    assert not strange
    assert said == said.strip() and "  " not in said


@given(st.lists(WORD, min_size=1), st.sampled_from([" ", "\n", ", ", " (", "* ", " — ", " 🙂 ", '" "']))
def test_words_are_never_lost(words: list[str], between: str) -> None:
    assert re.findall(r"[a-z]+", normalize_english(between.join(words))) == words


@given(st.lists(st.one_of(WORD, st.integers(-(10**9), 10**9).map(str)), min_size=1).map(" ".join))
def test_what_is_said_is_said_the_same_again(text: str) -> None:
    said = normalize_english(text)
    assert normalize_english(said) == said


@pytest.mark.parametrize("noise", ["a\u0301" + "\u0301" * 100_000, "9" * 5000, "1," * 2000, "." * 4096, "-" * 4096])
def test_hostile_text_is_normalized_all_the_same(noise: str) -> None:
    assert normalize_english(f"hello {noise} world").startswith("hello")
