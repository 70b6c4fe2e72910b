from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ouzel.text.markdown import SpokenMarkdown, spoken_markdown
from ouzel.text.normalize import normalize_english
from ouzel.text.sentences import SentenceSplitter

DOCUMENT = """# Paris, *France*

The **capital** of France is [Paris](https://en.wikipedia.org/wiki/Paris_(city) "a title"). Run `git_log` to
see 5*3*2 = 30 🎉.

1. First
1. Second
   - nested **thing**

   ```python
   print("**x**")
   ```
1. Third

| Name | Age |
|------|:---:|
| *Ada* | 36 |
| Bob | |

> A quote, ![a cat](cat.png) &amp; more
***
Ends **open and a [link
"""


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Plain words.", "Plain words."),
        ("No mark at the end", "No mark at the end."),
        ("### Example Heading\nHere is a paragraph.", "Example Heading.\n\nHere is a paragraph."),
        ("Heading\n-------\nText?", "Heading.\n\nText?"),
        ("This is *very* important and 5*3*2 = 30.", "This is very important and 5×3×2 = 30."),
        ("2 * 3, 2**8, 4*(1+2) and a * b", "2 × 3, 2^8, 4×(1+2) and a × b."),
        ("**Bold**, __bold__, *it*, _it_, ~~gone~~, snake_case_word", "Bold, bold, it, it, gone, snake_case_word."),
        ("A price* without emphasis", "A price without emphasis."),
        ('He said "**yes**."', 'He said "yes."'),
        ("- one\n- two.\n* three!", "one.\n\ntwo.\n\nthree!"),
        ("1. one\n2. two", "1. one.\n\n2. two."),
        ("1. one\n1. two\n1. three", "1. one.\n\n2. two.\n\n3. three."),
        ("3) three\n4) four", "3. three.\n\n4. four."),
        ("1. one\n\n```\nx\n```\n\n2. two", "1. one.\n\nCode example.\n\n2. two."),
        ("1. one\n   1. inner\n   2. inner\n2. two", "1. one.\n\n1. inner.\n\n2. inner.\n\n2. two."),
        ("Steps:\n1. First\n2. Second", "Steps:\n\n1. First.\n\n2. Second."),
        ("In the year\n2. of it", "In the year\n2. of it."),
        ("- [ ] open\n- [x] done", "open.\n\ndone."),
        ("Call `do_it now`.", "Call do it now."),
        ("Before\n```python\nprint('*')\n```\nAfter", "Before.\n\nCode example.\n\nAfter."),
        ("~~~\nnever closed", "Code example."),
        ("Text\n\n    indented()", "Text.\n\nCode example."),
        ("[the **docs**](http://x.org/a) and <https://www.x.org/b?c>.", "the docs and x.org."),
        ("See https://user@docs.x.org:80/a_b/c(d).", "See docs.x.org:80."),
        ("(www.x.org/a), ftp://x.org", "(x.org), x.org."),
        ("An http://[odd one, www.", "An [odd one, www."),
        ("[[1]](http://x.org) [2] a[3]", "[1] [2] a[3]."),
        ("![a cat](cat.png) ![](dog.png)", "a cat "),
        ("| A | B |\n|---|---|\n| 1 | **2** |\n| | 4 |", "A: 1, B: 2.\n\nB: 4."),
        ("| OS | Works |\n|---|---|\n| Linux | ✅ |\n| BeOS | ❌ |", "OS: Linux, Works: yes.\n\nOS: BeOS, Works: no."),
        ("| A | B |\n|---|---|\n", "A, B."),
        ("Not | a table\nat all", "Not | a table\nat all."),
        ("Words\na | b\n--|--\n1 | 2", "Words\na \n\na: 1, b: 2."),
        ("A head. So | late\n---|---\n1 | 2", "A head. So \n\nA head. So: 1, late: 2."),
        ("> quoted\nlazily\n> > deeper", "quoted\nlazily.\n\ndeeper."),
        ("One<br>two <b>bold</b> <!-- no --> 1 < 2", "One\ntwo bold 1 < 2."),
        ("<div>\nWords stay.\n</div>", "Words stay."),
        ("\\*no\\* &amp; &copy; \\[x]", "*no* & © [x]."),
        ("Great job! 🎉 1️⃣ step 👩‍💻, 🇫🇷 ok ❤️", "Great job! 1 step , ok "),
        ("***\n---\n", ""),
        ("🙂", ""),
        ("", ""),
        ("  \n \n", ""),
        ("a\r\nb\x00\x07c\ud800", "a \nbc."),
        ("Roses are red  \nViolets\\\nare blue", "Roses are red \nViolets\nare blue."),
        ("[x]: http://x.org\n\nText", "[x]: x.org.\n\nText."),
        ("第一句。**第二**句！", "第一句。第二句！"),
    ],
)  # fmt: skip
def test_what_is_said(written: str, said: str) -> None:
    assert spoken_markdown(written) == said


@pytest.mark.parametrize(
    ("written", "safe"),
    [
        ("It is", "It "),
        ("It is **very", "It is "),
        ("It is **very important** indeed", "It is very important "),
        ("A [link text](http://x.org 'ti", "A "),
        ("A [link text] and ", "A [link text] and "),
        ("Use `git log", "Use "),
        ("It is 2 * ", "It is 2 "),
        ("A <b class='x", "A "),
        ("One sentence. Another\n", "One sentence. Another"),
        ("One sentence.\n\n", "One sentence."),
        ("Soon\n---", "Soon"),
        ("Soon\n--- |", "Soon"),
        ("# Heading words", ""),
        ("# Heading\n", "Heading."),
        ("- item one ", "item one "),
        ("- item one\n- it", "item one"),
        ("- item one\n- item ", "item one.\n\nitem "),
        ("12. ", ""),
        ("12. apples and", "12. apples "),
        ("2024 was", ""),
        ("2024 was good ", "2024 was good "),
        ("```py", ""),
        ("```py\n", "Code example."),
        ("| A | B |\n|---|---|\n| 1 | 2 ", ""),
        ("| A | B |\n|---|---|\n| 1 | 2 |\n", "A: 1, B: 2."),
        ("| a b | c |\n", ""),
        ("第一句。第", "第一句。"),
        ("An open [bracket " + "and words " * 50, "An open [bracket " + "and words " * 40),
    ],
)
def test_what_is_said_already(written: str, safe: str) -> None:
    assert SpokenMarkdown().feed(written).startswith(safe)
    if not safe.endswith("words "):
        assert SpokenMarkdown().feed(written) == safe


def test_a_sentence_is_certain_before_its_paragraph_ends() -> None:
    spoken, splitter = SpokenMarkdown(), SentenceSplitter()
    assert splitter.feed(spoken.feed("It is **Paris**. And ")) == ["It is Paris. "]


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[begin:end] for begin, end in zip(places, places[1:], strict=False)]


def said_in(pieces: list[str]) -> str:
    spoken = SpokenMarkdown()
    return "".join([*map(spoken.feed, pieces), spoken.flush()])


SYNTAX = [
    "**", "*", "_", "`", "```\n", "[", "](u)", "]", "(", ")", "# ", "- ", "1. ", "> ", "|", "|-|-|\n", "\n", "\n\n",
    "---", "<b>", "<", "\\", "&amp;", "~~", "    ", " ", "word", "Word.", "7", "é", "🎉",
    "https://x.org/a",
]  # fmt: skip
TEXT = st.one_of(st.text(), st.lists(st.sampled_from(SYNTAX), max_size=40).map("".join))


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(SYNTAX), max_size=40).map("".join)),
    st.lists(st.integers(0), max_size=20),
)
@example(DOCUMENT, [*range(len(DOCUMENT))])
def test_any_cut_gives_the_same_words(text: str, cuts: list[int]) -> None:
    assert said_in(pieces_of(text, cuts)) == spoken_markdown(text)


WORD = st.from_regex(r"[A-Za-zé]{1,8}[,.!?]?", fullmatch=True)
WORDS = st.lists(WORD, min_size=1, max_size=12).map(" ".join)
EMPHASIS = st.tuples(st.sampled_from(["**", "*", "`", "~~", "***"]), WORDS).map(
    lambda one: (one[0] + one[1] + one[0], one[1])
)
LINK = WORDS.map(lambda words: (f"[{words}](https://x.org/a_b)", words))
SPAN = st.one_of(WORDS.map(lambda words: (words, words)), EMPHASIS, LINK)
LINE = st.lists(SPAN, min_size=1, max_size=4).map(
    lambda all: (" ".join(w for w, _ in all), " ".join(s for _, s in all))
)


def listed(items: list[tuple[str, str]]) -> tuple[str, list[str]]:
    numbered = list(enumerate(items, 1))
    return "\n".join(f"{n}. {written}" for n, (written, _) in numbered), [f"{n}. {said}" for n, (_, said) in numbered]


BLOCK = st.one_of(
    LINE.map(lambda line: (line[0], [line[1]])),
    LINE.map(lambda line: (f"## {line[0]}", [line[1]])),
    LINE.map(lambda line: (f"> {line[0]}", [line[1]])),
    WORDS.map(lambda code: (f"```\n{code}\n```", ["Code example."])),
    st.lists(LINE, min_size=1, max_size=4).map(listed),
    st.lists(LINE, min_size=1, max_size=4).map(
        lambda items: ("\n".join(f"- {written}" for written, _ in items), [said for _, said in items])
    ),
    st.lists(st.tuples(LINE, LINE), min_size=1, max_size=3).map(
        lambda rows: (
            "\n".join(["| A | B |", "|---|---|", *(f"| {a[0]} | {b[0]} |" for a, b in rows)]),
            [f"A: {a[1]}, B: {b[1]}" for a, b in rows],
        )
    ),
)


@given(st.lists(BLOCK, max_size=6), st.lists(st.integers(0), max_size=20))
def test_every_word_of_every_block_is_said_in_its_order(blocks: list[tuple[str, list[str]]], cuts: list[int]) -> None:
    # A comment keeps neighbouring lists apart, and has no sound.
    written = "\n\n<!-- -->\n\n".join(text for text, _ in blocks)
    expected = [part if part[-1] in ".,!?" else f"{part}." for _, parts in blocks for part in parts]
    assert said_in(pieces_of(written, cuts)) == "\n\n".join(expected)


PROSE = st.lists(st.from_regex(r"[^\W\d_]{1,9}[.,;:!?]?", fullmatch=True), min_size=1, max_size=20)


@given(st.lists(PROSE, min_size=1, max_size=5))
def test_plain_prose_is_said_as_it_is(paragraphs: list[list[str]]) -> None:
    written = "\n\n".join(" ".join(words) for words in paragraphs)
    assert spoken_markdown(written).split() == [
        word if last[-1] in ".,;:!?" or word is not last else f"{word}."
        for words in paragraphs for last in [words[-1]] for word in words
    ]  # fmt: skip


def test_an_open_mark_holds_words_back_for_a_while_only() -> None:
    spoken = SpokenMarkdown()
    heard = spoken.feed("An open [bracket " + "and words " * 200)
    assert len(heard) > 1500


@pytest.mark.parametrize(
    ("begin", "line", "end", "said"),
    [
        ("", "1. item **{0}**", "", "{1}. item {0}."),
        ("", "- item **{0}**", "", "item {0}."),
        ("", "line **{0}**", "", "line {0}"),
        ("", "> line {0}", "", "line {0}"),
        ("- top\n", "  lazy {0}", "", "lazy {0}"),
        ("| A |\n|---|\n", "| {0} |", "", "A: {0}."),
        ("```\n", "code {0}", "```\nThen.", ""),
        ("1. x\n   ~~~\n", "   code {0}", "   ~~~\n2. Then.", ""),
        ("- top\n", "  - sub {0}", "", "sub {0}."),
        ("- top\n  - sub\n", "    - item {0}", "", "item {0}."),
        ("> quote\n", ">\n> line {0}", "", "line {0}."),
    ],
)
def test_a_long_block_keeps_few_lines_and_loses_no_words(begin: str, line: str, end: str, said: str) -> None:
    spoken, most = SpokenMarkdown(), 0
    heard = spoken.feed(begin)
    for number in range(1, 200):
        heard += spoken.feed(line.format(f"n{number}") + "\n")
        most = max(most, len(spoken._lines))
    heard += spoken.feed(end) + spoken.flush()
    assert most <= 66
    if said:
        lines = [one for one in heard.split("\n") if one]
        assert [one.rstrip(".") for one in lines][-199:] == [
            said.format(f"n{number}", number).rstrip(".") for number in range(1, 200)
        ]
    else:
        assert heard.endswith("Then.") and "n1" not in heard and heard.count("Code example.") == 1


def test_a_server_that_only_speaks_needs_no_parser() -> None:
    code = "import sys, ouzel.gateway.app, ouzel.text.markdown; print({'markdown_it', 'openai'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout == "set()\n"


def test_a_voice_reads_what_is_said() -> None:
    assert normalize_english(spoken_markdown("1. Use **two** cups: 5*3 = 15 🎉")).lower() == (
        "one. use two cups: five times three equals fifteen"
    )
