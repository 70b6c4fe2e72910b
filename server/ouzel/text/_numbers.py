"""Numbers as American English says them: no "and", no commas."""

from __future__ import annotations

import re

from num2words import num2words

from ouzel.text._rules import Rule, rule

#: An unsigned number as people write it: `7`, `1,234`, `3.14`, `.5`. Not a digit of a longer number or word.
NUMBER = r"(?:(?<![\d.])\.\d+|\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?)"

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_LONGEST = 15  # more digits than this are an identifier, and nobody says quadrillions

_FRACTIONS = {2: "half", 4: "quarter"}
_YEAR_CUES = r"in|since|year|by|from|until|till|before|after|around|circa|of|early|late|mid"


def cardinal(number: str) -> str:
    """`1,234` → one thousand two hundred thirty-four; digit by digit where it starts with zero or never ends."""
    number = number.replace(",", "")
    if len(number) > _LONGEST or (len(number) > 1 and number[0] == "0"):
        return digits(number)
    return _words(int(number))


def digits(number: str) -> str:
    return " ".join(_DIGITS[int(digit)] for digit in number if digit.isdecimal())


def spoken(number: str) -> str:
    """Any `NUMBER`, whole or decimal: `1,000.50` → one thousand point five zero."""
    whole, point, fraction = number.partition(".")
    if not point:
        return cardinal(whole)
    return " ".join(part for part in (whole and cardinal(whole), "point", digits(fraction)) if part)


def ordinal(number: str) -> str:
    number = number.replace(",", "")
    if len(number) > _LONGEST:
        return f"{digits(number)}th"
    return str(num2words(int(number), to="ordinal")).replace(",", "").replace(" and ", " ")


def year(number: str) -> str:
    """`1984` → nineteen eighty-four, `2005` → two thousand five, `1905` → nineteen oh-five."""
    return str(num2words(int(number), to="year")).replace(",", "").replace(" and ", " ")


def is_one(number: str) -> bool:
    """Whether the noun after this number is singular."""
    return number == "1"


def plural(word: str) -> str:
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith("x") else f"{word}s"


def _words(number: int) -> str:
    return str(num2words(number)).replace(",", "").replace(" and ", " ")


def _decade(match: re.Match[str]) -> str:
    century, decade = match["century"], match["decade"]
    if decade == "00":
        return f"{year(f'{century}00')}s" if century else "two thousands"
    last = plural(cardinal(decade))
    return f"{_words(int(century))} {last}" if century else last


def _fraction(match: re.Match[str]) -> str:
    top, bottom = int(match["top"]), int(match["bottom"])
    if not 0 < top < bottom:
        return f"{cardinal(match['top'])} slash {cardinal(match['bottom'])}"
    part = _FRACTIONS.get(bottom) or ordinal(match["bottom"])
    said = f"{_words(top)} {part if top == 1 else 'halves' if part == 'half' else plural(part)}"
    if not match["whole"]:
        return said
    return f"{cardinal(match['whole'])} and {f'a {part}' if top == 1 else said}"


def _minus(match: re.Match[str]) -> str:
    return f"minus {match['number']}"


def _bare(match: re.Match[str]) -> str:
    number = match.group()
    if len(number) == 4 and number.isdecimal() and 1100 <= int(number) <= 2099:
        return f" {year(number)} "
    return f" {spoken(number)} "


#: Whole shapes first, so that the plain number at the end only finds what nothing else claimed.
RULES: tuple[Rule, ...] = (
    rule(r"\b 24/7 \b", "twenty-four seven"),
    rule(
        r"(?<![\w.-]) (?:\+?1[\s.-])? (?:\(\d{3}\)\ ?|\d{3}[\s.-]) \d{3}[\s.-]\d{4} (?![\w-]) | (?<!\w)\+\d{7,15}\b",
        lambda m: ", ".join(digits(part) for part in re.findall(r"\d+", m.group())),
    ),
    rule(r"(?<![\w.]) \d+(?:\.\d+){2,} (?!\w)", lambda m: " dot ".join(cardinal(n) for n in m.group().split("."))),
    rule(r"(?<![\w,.]) '? (?P<century>1\d|20)? (?P<decade>\d0) '?s \b", _decade),
    rule(r"(?<![\w.]) (\d[\d,]*)(?:st|nd|rd|th)\b", lambda m: ordinal(m[1]), re.IGNORECASE),
    rule(
        r"(?<![\w./]) (?:(?P<whole>\d+)\ )? (?P<top>\d{1,2})/(?P<bottom>[2-9]|1\d|[1-9]0|100) (?![\w/]|\.\d)", _fraction
    ),
    rule(
        rf"\b (?P<cue>{_YEAR_CUES}) \s+ (?P<year>1[0-9]{{3}}|20\d\d) (?![\w,.:/%]\d|\w|\.\d)",
        lambda m: f"{m['cue']} {year(m['year'])}",
        re.IGNORECASE,
    ),
    rule(r"(?<=\d) \s*[–-]\s* (?=\d[\d,.]*\s*=)", " minus "),
    rule(r"(?<=\d) [–:-] (?=\d)", " to "),
    rule(r"(?<=\d) \ ?[*×·]\ ? (?=[\d(])", " times "),
    rule(r"(?<=\d) \ ?x\ ? (?=\d)", " by "),
    rule(r"(?<=\d) \ +[-−–]\ + (?=\d) | (?<=\d)−(?=\d)", " minus "),
    rule(rf"(?<![\w.)]) [-−] (?P<number>{NUMBER})", _minus),
    rule(r"(?<=\d)k\b", " thousand"),
    rule(r"\#(?=\d)", "number "),
    rule(NUMBER, _bare),
)
