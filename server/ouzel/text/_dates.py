"""Dates and times of day. `3/5/2024` is read the American way, month first, unless it can't be."""

from __future__ import annotations

import re

from ouzel.text._numbers import cardinal, ordinal, year
from ouzel.text._rules import Rule, one_of, rule

_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_SHORT_MONTHS = {name[:3]: name for name in _MONTHS} | {"Sept": "September"}
_DAYS = {"Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday",
         "Thur": "Thursday", "Thurs": "Thursday", "Fri": "Friday", "Sat": "Saturday", "Sun": "Sunday"}  # fmt: skip

_MONTH = rf"(?:(?P<month>{one_of(_MONTHS)})|(?P<short>{one_of(_SHORT_MONTHS)})\b\.?)"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>1\d{3}|20\d\d)"


def _month(match: re.Match[str]) -> str:
    return match["month"] or _SHORT_MONTHS[match["short"]]


def _named(match: re.Match[str]) -> str:
    said = f"{ordinal(match['day'])} of {_month(match)}" if match["of"] else f"{_month(match)} {ordinal(match['day'])}"
    return f"{said}, {year(match['year'])}" if match["year"] else said


def _month_and_year(match: re.Match[str]) -> str:
    return f"{_month(match)} {year(match['year'])}"


def _numeric(match: re.Match[str]) -> str:
    month, day = int(match["month"]), int(match["day"])
    if month > 12:
        month, day = day, month
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return match.group()
    return f"{_MONTHS[month - 1]} {ordinal(str(day))}, {year(match['year'])}"


def _clock(match: re.Match[str]) -> str:
    hour, minute, half = int(match["hour"]), match["minute"] or "00", match["half"]
    if hour > 24 or int(minute) > 59:
        return match.group()
    said = cardinal(str(hour))
    if minute[0] == "0":
        said += f" oh {cardinal(minute[1])}" if minute != "00" else _full_hour(hour, bool(half))
    else:
        said += f" {cardinal(minute)}"
    if (match["second"] or "00") != "00":
        said += f" and {cardinal(str(int(match['second'])))} seconds"
    return f"{said} {half[0].upper()} M" if half else said


def _full_hour(hour: int, half: bool) -> str:
    return "" if half else " o'clock" if 1 <= hour <= 12 else " hundred"


#: `a.m.` at the end of a sentence keeps the sentence's full stop.
_HALF = r"(?P<half>[ap]\.m(?=\.(?:\s+(?-i:[A-Z])|\s*$)) | [ap]\.m\. | [ap]m\b)"

RULES: tuple[Rule, ...] = (
    rule(rf"(?<![\w/-]) {_YEAR}-(?P<month>0\d|1[0-2])-(?P<day>0[1-9]|[12]\d|3[01]) (?:T(?=\d)|(?![\w-]))",
         lambda m: f"{_numeric(m)} "),
    rule(rf"(?<![\w/.]) (?P<month>\d{{1,2}})([/.])(?P<day>\d{{1,2}})\2{_YEAR} (?![\w/])", _numeric),
    rule(rf"\b (?:(?P<dow>{one_of(_DAYS)})\b\.?) (?=,?\ (?:{one_of(_MONTHS)}|{one_of(_SHORT_MONTHS)}|\d))",
         lambda m: _DAYS[m["dow"]]),
    rule(rf"\b {_MONTH} \s+ {_DAY} (?P<of>)(?:,?\s+{_YEAR})? (?![\w:%°]|[.,]\d|-\d)", _named),
    rule(rf"(?<![\w.,:$€£]) {_DAY} \s+ (?P<of>of\s+)? {_MONTH} (?:,?\s+{_YEAR})? (?!\w|[.,]\d)", _named),
    rule(rf"\b {_MONTH} ,? \s+ {_YEAR} (?!\w|[.,]\d)", _month_and_year),
    rule(rf"(?<![\w:.,]) (?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?::(?P<second>[0-5]\d))? (?:\s?{_HALF})? (?![\w:]|\.\d)",
         _clock, re.IGNORECASE),
    rule(rf"(?<![\w:.,]) (?P<hour>\d{{1,2}})(?P<minute>)(?P<second>)\s?{_HALF} (?!\w)", _clock, re.IGNORECASE),
)  # fmt: skip
