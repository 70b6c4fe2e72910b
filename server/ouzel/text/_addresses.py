"""Web and mail addresses, said as one would dictate them."""

from __future__ import annotations

import re

from ouzel.text._numbers import cardinal, digits
from ouzel.text._rules import Rule, rule

_NAMES = {".": "dot", "/": "slash", "-": "dash", "_": "underscore", "?": "question mark", "=": "equals", "&": "and",
          "#": "hash", "%": "percent", ":": "colon", "~": "tilde", "@": "at", "+": "plus"}  # fmt: skip
_TLD = r"(?:com|org|net|edu|gov|info|io|dev|ai|app|co|uk|de|fr|eu|us|ca|au|jp|cn|in|me|tv)"
_PIECE = re.compile(r"[^\W\d_]+|\d+|.")


def _dictated(address: str) -> str:
    return " ".join(_piece(piece) for piece in _PIECE.findall(address))


def _piece(piece: str) -> str:
    if piece.isdecimal():
        return cardinal(piece) if len(piece) <= 2 else digits(piece)
    return _NAMES.get(piece, piece)


def _address(match: re.Match[str]) -> str:
    return _dictated(match["address"].removeprefix("www.").rstrip("/"))


RULES: tuple[Rule, ...] = (
    rule(r"(?:mailto:)? (?P<address>\b[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)*\w)", _address),
    rule(r"\b (?:https?|ftp)://(?P<address>[\w.~:/?\#@&=%+-]*[\w/])", _address, re.IGNORECASE),
    rule(rf"""(?<![\w.@]) (?P<address>(?:www\.[\w.-]+\w | (?:[\w-]{{1,63}}\.){{1,8}}{_TLD}\b(?!\.\w))
              (?:/[\w.~/?\#&=%+-]*[\w/])?)""", _address),
)  # fmt: skip
