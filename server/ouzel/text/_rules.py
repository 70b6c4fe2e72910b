"""A normalizer rule: a pattern, and what is said in the place of a match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Rule(NamedTuple):
    pattern: re.Pattern[str]
    say: Callable[[re.Match[str]], str]


def rule(pattern: str, say: Callable[[re.Match[str]], str] | str, flags: re.RegexFlag = re.NOFLAG) -> Rule:
    """A rule from a verbose pattern, in which a blank must be written `\\ ` or `\\s`."""
    return Rule(re.compile(pattern, flags | re.VERBOSE), say if callable(say) else lambda _: say)


def apply(rules: Iterable[Rule], text: str) -> str:
    for pattern, say in rules:
        text = pattern.sub(say, text)
    return text


def one_of(words: Iterable[str]) -> str:
    """An alternation of literal words, the longest first so that none hides behind its own beginning."""
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))
