"""Money, percentages, temperatures and units: a number and what it counts."""

from __future__ import annotations

import re

from ouzel.text._numbers import NUMBER, cardinal, is_one, plural, spoken
from ouzel.text._rules import Rule, one_of, rule

#: sign or code → (one of it, many, a hundredth, hundredths)
_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "US$": ("U S dollar", "U S dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "USD": ("U S dollar", "U S dollars", "cent", "cents"),
    "EUR": ("euro", "euros", "cent", "cents"),
    "GBP": ("pound", "pounds", "penny", "pence"),
    "JPY": ("yen", "yen", "sen", "sen"),
    "CHF": ("Swiss franc", "Swiss francs", "centime", "centimes"),
}
_SCALES = {"k": "thousand", "K": "thousand", "m": "million", "M": "million", "bn": "billion", "B": "billion",
           "tn": "trillion", "T": "trillion"} | {
    scale: scale for scale in ("hundred", "thousand", "million", "billion", "trillion")}  # fmt: skip

#: written → one of it
_UNITS = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "μm": "micrometer", "nm": "nanometer",
    "mi": "mile", "ft": "foot", "yd": "yard", "kg": "kilogram", "g": "gram", "mg": "milligram", "lb": "pound",
    "lbs": "pound", "oz": "ounce", "l": "liter", "L": "liter", "ml": "milliliter", "mL": "milliliter",
    "gal": "gallon", "ms": "millisecond", "μs": "microsecond", "ns": "nanosecond", "s": "second", "sec": "second",
    "min": "minute", "mins": "minute", "h": "hour", "hr": "hour", "hrs": "hour", "Hz": "hertz", "kHz": "kilohertz",
    "MHz": "megahertz", "GHz": "gigahertz", "kB": "kilobyte", "KB": "kilobyte", "MB": "megabyte", "GB": "gigabyte",
    "TB": "terabyte", "KiB": "kibibyte", "MiB": "mebibyte", "GiB": "gibibyte", "kbps": "kilobit per second",
    "Mbps": "megabit per second", "Gbps": "gigabit per second", "MB/s": "megabyte per second",
    "GB/s": "gigabyte per second", "V": "volt", "mV": "millivolt", "W": "watt", "kW": "kilowatt", "MW": "megawatt",
    "kWh": "kilowatt hour", "mA": "milliamp", "mAh": "milliamp hour", "dB": "decibel", "Pa": "pascal",
    "kPa": "kilopascal", "hPa": "hectopascal", "J": "joule", "kJ": "kilojoule", "kcal": "kilocalorie", "N": "newton",
    "Ω": "ohm", "px": "pixel", "mph": "mile per hour", "rpm": "revolution per minute", "fps": "frame per second",
    "km/h": "kilometer per hour", "kmh": "kilometer per hour", "m/s": "meter per second", "tok/s": "token per second",
    "m^2": "square meter", "km^2": "square kilometer", "cm^2": "square centimeter", "m^3": "cubic meter",
    "ft^2": "square foot",
}  # fmt: skip
_PLURALS = {"foot": "feet", "hertz": "hertz", "kilohertz": "kilohertz", "megahertz": "megahertz",
                "gigahertz": "gigahertz"}  # fmt: skip
_SPACED_ONLY = {"s", "m", "l", "L", "V", "W", "J", "N"}  # glued to the number they may be something else: 10m, 4W
_DEGREES = {"C": " Celsius", "F": " Fahrenheit", "K": " Kelvin", "": ""}

#: one amount or two: `-5`, `10-20`, `5 to 10`, `20-$30`
_COUNT = rf"(?P<number>{NUMBER})(?:\s?(?:[–-]|\bto\b)\s?[$€£¥₹]?(?P<upto>{NUMBER}))?"
_MINUS = r"(?P<minus>(?<!\w)-)?"
_RANGE = rf"(?<![\w,./]){_MINUS}{_COUNT}"


def _amount(match: re.Match[str]) -> str:
    said = f"{'minus ' if match['minus'] else ''}{spoken(match['number'])}"
    return f"{said} to {spoken(match['upto'])}" if match["upto"] else said


def _single(match: re.Match[str]) -> bool:
    return is_one(match["number"]) and not match["upto"]


def _money(match: re.Match[str]) -> str:
    return _sum(match) + (" per " if match["each"] else "")


def _sum(match: re.Match[str]) -> str:
    one, many, hundredth, hundredths = _CURRENCIES[match["currency"]]
    whole, _, cents = match["number"].replace(",", "").partition(".")
    if match["scale"]:
        return f"{_amount(match)} {_SCALES[match['scale']]} {many}"
    if match["upto"] or len(cents) not in (0, 2):
        return f"{_amount(match)} {one if _single(match) else many}"
    said = []
    if whole.strip("0") or not cents.strip("0"):
        said.append(f"{cardinal(whole or '0')} {one if is_one(whole) else many}")
    if cents.strip("0"):
        said.append(f"{cardinal(cents.lstrip('0'))} {hundredth if cents == '01' else hundredths}")
    return f"{'minus ' if match['minus'] else ''}{' and '.join(said)}"


def _unit(match: re.Match[str]) -> str:
    one = _UNITS[match["unit"]]
    return f"{_amount(match)} {one if _single(match) else _many(one)}"


def _many(unit: str) -> str:
    counted, per, rest = unit.partition(" per ")
    *before, last = counted.split(" ")
    return " ".join([*before, _PLURALS.get(last) or plural(last)]) + per + rest


def _degrees(match: re.Match[str]) -> str:
    return f"{_amount(match)} {'degree' if _single(match) else 'degrees'}{_DEGREES[match['scale'] or '']} "


_SYMBOL = one_of(code for code in _CURRENCIES if not code.isalpha())
_CODE = one_of(code for code in _CURRENCIES if code.isalpha())
_SCALE = rf"(?:\s?(?P<scale>{one_of(_SCALES)})\b)?"
_GLUED = rf"\s?(?P<unit>{one_of(_UNITS.keys() - _SPACED_ONLY)})"
_SPACED = rf"\s(?P<unit>{one_of(_SPACED_ONLY)})"
_AFTER_UNIT = r"(?![\w'^/]) (?:\.(?=\s+[a-z]))?"

RULES: tuple[Rule, ...] = (
    rule(rf"(?<![A-Za-z.,]){_MINUS}(?P<currency>{_SYMBOL})\s?{_COUNT}{_SCALE} (?P<each>/(?=[a-z]))?", _money),
    rule(rf"{_RANGE}{_SCALE}\s?(?P<currency>{_CODE}|[€£¥₹]) (?!\w) (?P<each>/(?=[a-z]))?", _money),
    rule(rf"{_RANGE}\s?%", lambda match: f"{_amount(match)} percent "),
    rule(rf"{_RANGE}\s?°\s?(?P<scale>[CFK])? (?!\w)", _degrees),
    rule(rf"{_RANGE}{_GLUED}{_AFTER_UNIT}", _unit),
    rule(rf"{_RANGE}{_SPACED}{_AFTER_UNIT}", _unit),
)
