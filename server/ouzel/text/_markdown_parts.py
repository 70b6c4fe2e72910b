"""The parts of markdown that are said one after the other, by a walk over the tokens of its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.token import Token

__all__ = ["Part", "last_block", "parts_of"]

_TASKS = ("[ ]", "[x]", "[X]")


@dataclass(slots=True, kw_only=True)
class Part:
    """A paragraph, a heading, a row of a table, or a block of code."""

    #: its lines
    begin: int
    end: int
    #: what is inside, as written
    source: str = ""
    #: a row's values with their columns' names, as written
    cells: tuple[tuple[str, str], ...] = ()
    code: bool = False
    #: goes before it: the number of its item
    prefix: str = ""
    #: nothing can be added to it
    over: bool = False

    def surely_holds(self, line: int) -> bool:
        """Whether an unfinished line stays a part of this paragraph, however it goes on: rules have no letters."""
        inside = not (self.over or self.cells) and self.end == line + 1
        return inside and any(map(str.isalpha, self.source.rpartition("\n")[2]))


def parts_of(tokens: Sequence[Token], number: int | None) -> Iterator[Part]:
    """The parts in their order.

    :param number: of the first item of the list that the tokens begin with; None for as written
    """
    numbers: list[int | None] = []
    prefix, at, heading = "", 0, False
    while at < len(tokens):
        token = tokens[at]
        match token.type:
            case "ordered_list_open":
                numbers.append(_first_number(token) if at or number is None else number)
            case "bullet_list_open":
                numbers.append(None)
            case "ordered_list_close" | "bullet_list_close":
                numbers.pop()
            case "list_item_open":
                prefix, numbers[-1] = _next_number(numbers[-1])
            case "heading_open":
                heading = True
            case "inline":
                source = token.content
                if tokens[at - 2].type == "list_item_open" and source[:3] in _TASKS and not source[3:4].strip():
                    source = source[3:]
                begin, end = _lines(token)
                yield Part(begin=begin, end=end, source=source, prefix=prefix, over=heading)
                prefix, heading = "", False
            case "fence" | "code_block":
                begin, end = _lines(token)
                yield Part(begin=begin, end=end, code=True, prefix=prefix, over=True)
                prefix = ""
            case "table_open":
                end_at = next(place for place in range(at, len(tokens)) if tokens[place].type == "table_close")
                yield from _rows(tokens[at:end_at], prefix)
                prefix, at = "", end_at
        at += 1


def last_block(tokens: Sequence[Token], number: int | None, lines: int) -> tuple[int, int | None]:
    """The line in which the last block begins, or the last item where it is a list, and that item's number."""
    begin, counted, found = lines, None, None
    for at, token in enumerate(tokens):
        if token.level == 0 and token.nesting >= 0:
            begin, found = _lines(token)[0], None
            counted = None
            if token.type == "ordered_list_open":
                counted = _first_number(token) if at or number is None else number
        elif token.level == 1 and token.type == "list_item_open":
            begin, found = _lines(token)[0], counted
            counted = None if counted is None else counted + 1
    return begin, found


def _rows(tokens: Sequence[Token], prefix: str) -> Iterator[Part]:
    """The rows of a table, each over with its line; of one without rows the names of its columns."""
    rows: list[list[str]] = []
    lines: list[tuple[int, int]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
            lines.append(_lines(token))
        elif token.type == "inline":
            rows[-1].append(token.content)
    names, *values = rows
    if not values:
        begin, end = _lines(tokens[0])
        yield Part(begin=begin, end=end, cells=tuple(("", name) for name in names), prefix=prefix)
    for row, (begin, end) in zip(values, lines[1:], strict=True):
        cells = tuple(zip_longest(names, row, fillvalue=""))
        yield Part(begin=begin, end=end, cells=cells, prefix=prefix, over=True)
        prefix = ""


def _first_number(token: Token) -> int:
    return int(token.attrs.get("start", 1))


def _next_number(number: int | None) -> tuple[str, int | None]:
    """What is said before an item, and the number of the next one."""
    return ("", None) if number is None else (f"{number}. ", number + 1)


def _lines(token: Token) -> tuple[int, int]:
    assert token.map is not None
    begin, end = token.map
    return begin, end
