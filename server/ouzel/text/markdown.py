"""What is said of a language model's markdown, while it is still being written.

Headings, paragraphs and list items are said, numbered ones with their numbers; of a link its text, of a bare address
its host, of a picture its description; a table row by row, each value after its column's name; of a block of code only
that it is there. Emoji, rules and HTML tags have no sound.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from ouzel.text._markdown_parts import Part, last_block, parts_of
from ouzel.text._markdown_words import parser, say_cell, say_inline

if TYPE_CHECKING:
    from markdown_it.token import Token

__all__ = ["SpokenMarkdown", "spoken_markdown"]

_CODE = "Code example."
_BLANKS = " \t\r"
#: Words may also end here: Chinese and Japanese have no blanks.
_WIDE_MARKS = "。！？，、；："
#: letters after which an emphasis, a link or a code span that isn't closed counts as none
_LONGEST_HOLD = 400
#: of a block that is parsed anew with each of its lines; what is longer is taken for a new one
_MOST_LINES = 64


def spoken_markdown(text: str) -> str:
    """What is said of a whole text."""
    spoken = SpokenMarkdown()
    return spoken.feed(text) + spoken.flush()


class SpokenMarkdown:
    """What is said of a text that comes in pieces; any pieces of the same text give the same words.

    Only the open block is parsed again while it grows, and of a list the open item. Inside a paragraph words are
    handed out as soon as they stand for themselves: what follows an opened emphasis, link or code span waits for its
    end. Blocks are set apart by an empty line, and none ends without a mark.
    """

    def __init__(self) -> None:
        #: lines of the open block, and the one that is being written
        self._lines: list[str] = []
        self._line = ""
        #: parts of the open block that were said, and letters of the next one
        self._parts_said = 0
        self._letters_said = 0
        #: the paragraph in which the line that is being written surely stands, with all that came of it
        self._open: Part | None = None
        #: the open block's first number, where items before it were said
        self._number: int | None = None
        self._voice = _Voice()

    def feed(self, text: str) -> str:
        """What can be said now."""
        for char in text:
            if char == "\n":
                self._end_line()
                continue
            # Controls and halves of surrogate pairs have no sound.
            if char not in _BLANKS and unicodedata.category(char) in ("Cc", "Cs"):
                continue
            after_word = self._line[-1:] not in ("", *_BLANKS)
            self._line += char
            if self._open is not None:
                self._open.source += char
            if (after_word and char in _BLANKS) or char in _WIDE_MARKS:
                self._end_word()
        return self._voice.take()

    def flush(self) -> str:
        """What is left, once no more text comes; nothing may be fed after that."""
        self._end_line()
        self._say(self._parts(self._parse()), over=True)
        return self._voice.take()

    def _end_line(self) -> None:
        self._lines.append(self._line)
        self._line, self._open = "", None
        tokens = self._parse()
        parts = self._parts(tokens)
        self._say(parts)
        self._forget(tokens, parts)

    def _end_word(self) -> None:
        """Where the line is surely a paragraph's, one more word of it may be said."""
        if self._open is None:
            parts = self._parts(self._parse(self._line))
            if not parts or not parts[-1].surely_holds(len(self._lines)):
                return
            self._say(parts[:-1], over=True)
            self._open = parts[-1]
            self._open.source += self._line[len(self._line.rstrip(_BLANKS)) :]
        self._say_words(self._open)

    def _parse(self, *more: str) -> list[Token]:
        tokens: list[Token] = []
        parser().block.parse("\n".join([*self._lines, *more]), parser(), {}, tokens)
        return tokens

    def _parts(self, tokens: list[Token]) -> list[Part]:
        return [*parts_of(tokens, self._number)]

    def _say(self, parts: list[Part], *, over: bool = False) -> None:
        """Say what is new; all but the last one are over in any case."""
        for place, part in enumerate(parts):
            if place < self._parts_said:
                continue
            if not (over or part is not parts[-1] or part.over or part.end < len(self._lines)):
                self._say_words(part)
                return
            self._say_rest(part)
            self._parts_said += 1
            self._letters_said = 0

    def _say_words(self, part: Part) -> None:
        """As much of an open paragraph as is safe."""
        # A line with a bar in it may be the head of a table.
        if part.cells or "|" in part.source.rpartition("\n")[2]:
            return
        source = part.source[self._letters_said :]
        words = say_inline(source, over=len(source) > _LONGEST_HOLD)
        if words is not None:
            self._voice.say(words, part.prefix)
            self._letters_said = len(part.source)

    def _say_rest(self, part: Part) -> None:
        """A part to its end."""
        if part.code:
            self._voice.say(_CODE, part.prefix)
        elif part.cells:
            said = [(name, value) for name, value in ((say_cell(n), say_cell(v)) for n, v in part.cells) if value]
            self._voice.end()  # what was taken for a paragraph until the line below it came
            self._voice.say(", ".join(f"{name}: {value}" if name else value for name, value in said), part.prefix)
        else:
            self._voice.say(say_inline(part.source[self._letters_said :], over=True) or "", part.prefix)
        self._voice.end()

    def _forget(self, tokens: list[Token], parts: list[Part]) -> None:
        """Keep the lines of the open block alone."""
        begin, number = last_block(tokens, self._number, len(self._lines))
        if begin:
            self._parts_said = sum(part.begin >= begin for part in parts[: self._parts_said])
            del self._lines[:begin]
            self._number = number
        open_parts = [part for part in parts if part.begin >= begin]
        for part in open_parts:
            part.begin, part.end = part.begin - begin, part.end - begin
        if open_parts:
            self._shorten(open_parts)

    def _shorten(self, parts: list[Part]) -> None:
        """Drop lines in the middle of the open block that change nothing: else a long one would cost its square."""
        last = parts[-1]
        if last.code:
            del self._lines[last.begin + 1 : last.end - 1]
        elif last.cells and len(parts) > 1 and parts[-2].cells and parts[-2].end == last.begin:
            del self._lines[parts[-2].begin]
            self._parts_said -= 1
        elif not last.over and last.end == len(self._lines):
            self._shorten_paragraph(last)
        if len(self._lines) > _MOST_LINES:
            self._parts_said = sum(part is last for part in parts[: self._parts_said])
            self._lines = [line.lstrip(" ") for line in self._lines[last.begin :]]
            self._number = None

    def _shorten_paragraph(self, paragraph: Part) -> None:
        """Its first line says where it stands, its last one how it goes on; those between that were said can go."""
        first, *inner = paragraph.source.split("\n")
        for line in inner[:-1]:
            if self._letters_said < len(first) + len(line) + 2:
                return
            del self._lines[paragraph.begin + 1]
            self._letters_said -= len(line) + 1


class _Voice:
    """Words on their way out: single blanks, an empty line between blocks, and a mark at the end of each."""

    _MARKS = ".,;:!?…。！？，；："
    _CLOSERS = "\"'”’»)]}」』）"
    _TAIL = 8  # letters: the marks that close a sentence, and the one before them

    def __init__(self) -> None:
        self._said: list[str] = []
        #: what was said of this block, as far as its end shows what it needs
        self._tail = ""
        #: goes before the next letter
        self._break = ""

    def say(self, words: str, prefix: str = "") -> None:
        """:param prefix: goes before the first word of a block"""
        for char in words:
            if not char.isspace():
                if not self._tail and prefix:
                    self._put(prefix)
                self._put(char)
            elif char == "\n":
                self._break = self._break or ("\n" if self._tail else "")
            elif self._tail and not self._tail[-1].isspace() and not self._break:
                self._put(" ")

    def end(self) -> None:
        """The block is over."""
        if not self._tail:
            return
        self._break = ""
        mark = self._tail.rstrip(self._CLOSERS)[-1:]
        if self._tail[-1] != " " and mark not in self._MARKS:
            self._put(".")
        self._tail, self._break = "", "\n\n"

    def take(self) -> str:
        """What was said since it was last taken."""
        said = "".join(self._said)
        self._said.clear()
        return said

    def _put(self, text: str) -> None:
        self._said += self._break, text
        self._tail = (self._tail + text)[-self._TAIL :]
        self._break = ""
