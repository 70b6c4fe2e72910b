"""What is said of markdown inside a paragraph: emphasis, code, links, images and emoji, by a walk over their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

__all__ = ["parser", "say_cell", "say_inline"]

_OPEN = "open"
_LINE_BREAKS = ("softbreak", "hardbreak")
_SCHEMES = ("https://", "http://", "ftp://", "www.")
_AFTER_ADDRESS = tuple(".,;:!?)]}>'\"’”»*")
_YES, _NO = "✅✔☑", "❌✖✗✘❎"
_JOINER = "\u200d"
#: emoji, dingbats, stars and clocks; variation selectors, keycaps and the letters of flags
_PICTURES = (
    (0x1F000, 0x1FBFF), (0x2600, 0x27BF), (0x2B00, 0x2BFF), (0x231A, 0x23FF), (0xFE00, 0xFE0F), (0x20E3, 0x20E3),
    (0xE0020, 0xE007F),
)  # fmt: skip


@cache
def parser() -> MarkdownIt:
    """CommonMark with tables, as far as it can be said while it comes.

    Link definitions change what stands long before them, and HTML blocks swallow the text inside: neither is one here.
    """
    # Imported here: only those who have a language model need it.
    from markdown_it import MarkdownIt

    found = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable(["reference", "html_block"])
    found.inline.ruler.before("strikethrough", "product", _product)
    found.inline.ruler2.after("balance_pairs", "note_open", _note_open)
    return found


def say_inline(source: str, *, over: bool) -> str | None:
    """The words of a piece of a paragraph that begins and ends between words.

    :param over: the paragraph ends with it
    :return: None where something in it is open that what follows could close
    """
    tokens: list[Token] = []
    env: dict[str, bool] = {}
    parser().inline.parse(source, parser(), env, tokens)
    if not over and (env.get(_OPEN) or _half_open(tokens) or source.endswith(("\\", " * ")) or source == "* "):
        return None
    return _without_pictures(_short_addresses(_words(tokens)))


def say_cell(source: str) -> str:
    """The words of a table's cell; a tick or a cross that stands alone is an answer."""
    if source[:1] and source[0] in _YES + _NO and not any(map(str.isalnum, source)):
        return "yes" if source[0] in _YES else "no"
    return " ".join((say_inline(source, over=True) or "").split())


def _words(tokens: Sequence[Token]) -> str:
    return "".join(map(_word, tokens))


def _word(token: Token) -> str:
    match token.type:
        case "text":
            return _without_marks(token.content)
        case "text_special":
            return token.content
        case "code_inline":
            return token.content.replace("_", " ")
        case "image":
            return _words(token.children or ())
        case "html_inline":
            return "\n" if token.content.startswith("<br") else ""
    return "\n" if token.type in _LINE_BREAKS else ""


def _product(state: StateInline, silent: bool) -> bool:
    """`5*3`, `4*(1+2)` and `2**8` are no emphasis."""
    end = state.pos
    while state.src[end : end + 1] == "*":
        end += 1
    before, after = state.src[: state.pos][-1:], state.src[end : end + 1]
    if end - state.pos not in (1, 2) or not (before.isdigit() or after.isdigit()):
        return False
    if not ((before.isdigit() or before == ")") and (after.isdigit() or after == "(")):
        return False
    if not silent:
        state.pending += "×" if end - state.pos == 1 else "^"
    state.pos = end
    return True


def _note_open(state: StateInline) -> None:
    if any(mark.open and mark.end < 0 for mark in state.delimiters):
        state.env[_OPEN] = True


def _half_open(tokens: Sequence[Token]) -> bool:
    """Whether a code span, a tag or a link may have begun: its marks are still plain text."""
    # A code span stands for itself as one letter.
    text = "".join(
        token.content if token.type == "text" else "x" for token in tokens if token.type in ("text", "code_inline")
    )
    return "`" in text or _open_tag(text) or _open_link(text)


def _open_tag(text: str) -> bool:
    _, found, inside = text.rpartition("<")
    return bool(found) and (inside[:1].isalpha() or inside[:1] in tuple("/!?")) and ">" not in inside


def _open_link(text: str) -> bool:
    depth = 0
    for place, char in enumerate(text):
        if char == "[":
            depth += 1
        elif char == "]" and depth:
            depth -= 1
            target = text[place + 1 :]
            if target.startswith("(") and target.count("(") > target.count(")"):
                return True
    return depth > 0


def _without_marks(text: str) -> str:
    """Stars that emphasize nothing have no sound, but for one between numbers or names."""
    if "*" not in text:
        return text
    words = text.split(" ")
    for at, word in enumerate(words[:-1]):
        if word == "*" and words[at + 1][:1].isalnum():
            words[at] = "×"
    return " ".join(words).replace("*", "")


def _short_addresses(text: str) -> str:
    """A web address is said by its host: nobody wants to hear the rest."""
    if not any(scheme in text for scheme in _SCHEMES):
        return text
    return "".join(" ".join(map(_short_address, line.split(" "))) for line in text.splitlines(keepends=True))


def _short_address(word: str) -> str:
    begin = min((place for scheme in _SCHEMES if (place := word.find(scheme)) >= 0), default=-1)
    if begin < 0 or word[:begin][-1:].isalnum():
        return word
    address = word[begin:].rstrip()
    while address.endswith(_AFTER_ADDRESS) and not (address[-1] == ")" and address.count("(") == address.count(")")):
        address = address[:-1]
    rest = word[begin + len(address) :]
    host = address.partition("://")[2] or address
    for mark in "/?#":
        host = host.partition(mark)[0]
    host = host.rpartition("@")[2].removeprefix("www.")
    return word[:begin] + host + rest if host else word


def _without_pictures(text: str) -> str:
    if text.isascii():
        return text
    said: list[str] = []
    for char in text:
        # A joiner between letters is spelling, between pictures it is one of them.
        glue = char == _JOINER and not (said and said[-1].isalpha())
        if not glue and not any(first <= ord(char) <= last for first, last in _PICTURES):
            said.append(char)
    return "".join(said)
