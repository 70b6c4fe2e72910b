"""Text in sentences, while it still arrives: the pieces joined are the text, and any chunking gives the same pieces."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["LONGEST_PIECE", "SentenceSplitter", "split_sentences"]

#: letters of one piece; a longer sentence is cut at a clause, else at a blank
LONGEST_PIECE = 300


def split_sentences(text: str, longest: int = LONGEST_PIECE) -> list[str]:
    """The sentences of `text`, each with the blanks that follow it; `"".join` of them is `text`."""
    splitter = SentenceSplitter(longest)
    return [*splitter.feed(text), *splitter.flush()]


class SentenceSplitter:
    """Sentences of a text that comes in chunks.

    A sentence is handed out as soon as nothing that follows could change where it ends: `3.` may become `3.14`, so
    it waits for the next letter that isn't a blank. A piece of blanks alone comes out only where the text has no more.
    """

    def __init__(self, longest: int = LONGEST_PIECE) -> None:
        """:param longest: letters that no piece exceeds, at least 1"""
        self._longest = longest
        self._rest = ""

    @property
    def rest(self) -> str:
        """What has come and isn't handed out."""
        return self._rest

    def feed(self, text: str) -> list[str]:
        """The sentences that are certain, now that `text` has come."""
        self._rest += text
        pieces, start = [], 0
        while end := self._end_of_piece(start):
            pieces.append(self._rest[start:end])
            start = end
        self._rest = self._rest[start:]
        return pieces

    def flush(self) -> list[str]:
        """What is left, once no more text comes; the splitter is as new."""
        rest, self._rest = self._rest, ""
        return [rest] if rest else []

    def _end_of_piece(self, start: int) -> int | None:
        """Where the piece from `start` ends; None where that needs letters that haven't come."""
        last = start + self._longest
        for match in _CANDIDATE.finditer(self._rest, start, last + 1):
            if _ends_sentence(match, self._rest, start):
                return match.end()
        return self._cut(start, last) if len(self._rest) > last else None

    def _cut(self, start: int, last: int) -> int:
        """The best place to cut a sentence that is too long: after a clause, else a blank, else between letters."""
        for pattern in (_CLAUSE, _BLANK):
            ends = [match.end() for match in pattern.finditer(self._rest, start, last)]
            if ends and ends[-1] > start + self._longest // 3:
                return ends[-1]
        return next((end for end in range(last, start, -1) if not _joins(self._rest[end])), last)


_CJK_MARKS = "。！？｡"
#: the marks, the quotes and brackets that they close, the blanks after them; decided by the first letter that follows
_CANDIDATE = re.compile(
    rf"""(?P<mark>[.!?…؟۔।{_CJK_MARKS}]++) (?P<close>["'”’»)\]}}」』）】*_]*+) (?P<blank>\s*+) (?=\S)
    | \n\s*+ (?=\S)""",
    re.VERBOSE,
)
_CLAUSE = re.compile(r"[,;:]\s+|\s[–—-]\s+|[—，、；：]\s*")
_BLANK = re.compile(r"\s+")
_WORD_BEFORE = re.compile(r"[^\W_](?:[\w.'’-]*\w)?\Z")
_WORD_REACH = 20  # letters; no abbreviation is longer

#: these end no sentence: a name, a number or an example follows
_ALWAYS_CONTINUED = frozenset(
    "mr mrs ms dr prof rev hon gov sen rep gen col maj capt lt sgt mt ft st messrs mme mlle fr sr sra "
    "vs cf e.g i.e approx max min fig figs no nos vol pp ch sec eq al viz z.b d.h bzw ca ggf".split()
)
#: these may end a sentence, and do where a capital follows
_MAY_END = frozenset(
    "etc inc ltd corp co jr sr bros a.m p.m ph.d b.c a.d dept est ave blvd rd u.s u.k e.u "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thurs fri".split()
)
_SURELY_A_WORD = 3  # letters: as many before `. lowercase` are no abbreviation


def _ends_sentence(match: re.Match[str], text: str, start: int) -> bool:
    mark, following = match["mark"], text[match.end()]
    if mark is None:
        return match.group().count("\n") > 1 or not following.islower()
    if any(char in _CJK_MARKS for char in mark):
        return True
    if not match["blank"]:
        return False
    if mark != ".":
        return not following.islower() or not (match["close"] or mark[-1] in ".…")
    found = _WORD_BEFORE.search(text, max(start, match.start() - _WORD_REACH), match.start())
    return found is None or _ends_after(found.group(), following, first=not text[start : found.start()].strip())


def _ends_after(word: str, following: str, first: bool) -> bool:
    """Whether a full stop after `word` ends the sentence; `first`: nothing stands before it."""
    known = word.lower()
    if known in _ALWAYS_CONTINUED or (first and word.isdecimal()):
        return False
    if known in _MAY_END:
        return following.isupper()
    if len(word) == 1 and word.isupper() and word != "I":
        return False
    return not following.islower() or len(word) >= _SURELY_A_WORD


def _joins(char: str) -> bool:
    """Whether a letter belongs to the one before it: a combining mark, a joiner, a variation selector."""
    return unicodedata.category(char) in ("Mn", "Mc", "Me") or char == "\u200d"
