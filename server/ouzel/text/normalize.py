"""English text to the words that are said, for voices that ask for it; the published models read raw text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from ouzel.text import _abbreviations, _addresses, _dates, _numbers, _quantities
from ouzel.text._rules import Rule, apply, rule

__all__ = ["normalize_english"]


def normalize_english(text: str) -> str:
    """`text` as words: letters, single blanks and `.,?!;:'-"`, nothing else.

    Numbers, dates, times, money, units, abbreviations and addresses become what an American reader says. A symbol is
    named where it is read aloud (`&`, `+`, `§`) and dropped where it isn't (brackets, emoji, `*` around words); words
    stay. Accents of Latin letters are dropped, letters of other scripts stay. Empty where nothing can be said: "🙂".
    """
    text = _plain(text)
    for family in (_addresses, _dates, _quantities, _abbreviations, _numbers):
        text = apply(family.RULES, text)
    text = "".join(_allowed(apply(_SYMBOLS, text)))
    return apply(_TIDY, text).lstrip(" .,?!;:-").rstrip(" ,;:-")


_PUNCTUATION = ".,?!;:'-\""
_SAME = str.maketrans({
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032\u00b4`", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f«»\u2033", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2212", "-"), "²": "^2", "³": "^3",
    # no sound: marks of trade, zero-width characters, the soft hyphen, variation selectors, the keycap
    **dict.fromkeys("™®©\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad\ufe0e\ufe0f\u20e3", ""),
    "ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
    "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th", "ı": "i",
})  # fmt: skip
_GLUED_FRACTION = re.compile(r"(?<=\d)(?=[¼½¾⅐-⅞])")
_ACCENTS = re.compile(r"(?<=[A-Za-z])[\u0300-\u036f]+")
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")


def _plain(text: str) -> str:
    """One kind of quote, digit and hyphen; ligatures and full-width forms undone; Latin letters without accents."""
    text = _GLUED_FRACTION.sub(" ", " ".join(text.translate(_SAME).split()))
    text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    text = unicodedata.normalize("NFC", text).replace("\u2044", "/")
    return _FOREIGN_DIGIT.sub(lambda match: str(int(match.group())), text)


def _allowed(text: str) -> Iterator[str]:
    """Letters and the marks that belong to them pass, whatever the script; a mark on nothing has no sound."""
    in_word = False
    for char in text:
        kind = unicodedata.category(char)[0]
        in_word = kind == "L" or (in_word and kind == "M")
        yield char if in_word or char in _PUNCTUATION else " "


_SYMBOLS: tuple[Rule, ...] = (
    rule(r"\^2\b", " squared "),
    rule(r"\^3\b", " cubed "),
    rule(r"&", " and "),
    rule(r"@", " at "),
    rule(r"\+", " plus "),
    rule(r"(?<![<>=!])=+(?![<>])", " equals "),
    rule(r"≈|(?<!~)~(?=\s?\w)", " about "),
    rule(r"±", " plus or minus "),
    rule(r"×", " times "),
    rule(r"÷", " divided by "),
    rule(r"≤|<=", " at most "),
    rule(r"≥|>=", " at least "),
    rule(r"≠|!=", " is not equal to "),
    rule(r"(?<=\w)\s<\s(?=\w)", " is less than "),
    rule(r"(?<=\w)\s>\s(?=\w)", " is greater than "),
    rule(r"§", " section "),
    rule(r"°", " degrees "),
    rule(r"%", " percent "),
    rule(r"\$", " dollar "),
    rule(r"€", " euro "),
    rule(r"£", " pound "),
    rule(r"µ|μ", " micro "),
    rule(r"(?<=\w)\s?/\s?(?=\w)", " slash "),
    rule(r"(?<=[^\W_])\.(?=[a-z])", " dot "),
    rule(r"(?<=[^\W_])_(?=[^\W_])", " "),
    rule(r"(?<!\.)\.{2,}(?=\s?[a-z])|[(){}\[\]|•·]|\s*[–—―]\s*|\s-+\s|--+", ", "),
)

_STRONGEST_FIRST = "?!.:;,"


def _one_mark(match: re.Match[str]) -> str:
    return next(mark for mark in _STRONGEST_FIRST if mark in match.group())


_TIDY: tuple[Rule, ...] = (
    rule(r"\s+", " "),
    rule(r"(?<![^\W_])- | -(?![^\W_])", " "),
    rule(r"\s* [.,?!;:] (?:\s*[.,?!;:])*", _one_mark),
    rule(r"(?<=[.,?!;:])(?=[^\W_])", " "),
    rule(r"[,;:]\s*(?=\"(?:[\s.,?!;:]|$))", ""),
    rule(r"\ +", " "),
)
