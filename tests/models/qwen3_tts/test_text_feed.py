from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from ouzel.errors import RequestError
from ouzel.models.qwen3_tts.prompt import PromptSpec
from tiny_prompts import CASES
from tiny_speech import side, spec

SPEAKER = side("small", "custom_voice")
WHOLE = spec(CASES["custom_streaming"])
# Words, contractions, blanks, line ends, marks and accents that arrive after their letter.
letters = st.sampled_from(list("aeHello 'sl1.,!\n\r\t\u0301\u0308\u4f60\u3002")) | st.characters(codec="utf-8")
pieces = st.lists(st.text(letters, max_size=6), max_size=8)


def in_pieces(spec_: PromptSpec, parts: list[str]) -> torch.Tensor:
    prompt, feed = SPEAKER.prompts().open(spec_)
    return torch.cat((prompt.rows, *(feed.push(part) for part in parts), feed.close()))


@given(pieces)
@example(["e", "\u0301a", "b"])
@example(["a \n ", "\nb"])
@example(["it'", "l", "l", " do"])
@example(["a  ", " ", "b"])
def test_pieces_give_the_rows_of_the_whole_text(parts: list[str]) -> None:
    text = "".join(parts)
    if not text.strip():
        return
    at_once = SPEAKER.prompts().build(replace(WHOLE, text=text))
    expected = torch.cat((at_once.rows, at_once.trailing))
    torch.testing.assert_close(in_pieces(WHOLE, parts), expected, rtol=0, atol=1e-6)


def test_a_word_leaves_when_the_next_one_begins() -> None:
    _, feed = SPEAKER.prompts().open(WHOLE)
    assert [len(feed.push(part)) for part in ("hel", "lo", " ", "the", "re ")] == [0, 0, 0, 1, 0]
    assert len(feed.close()) == len(SPEAKER.tokenizer.encode(" there")) + 1


def test_a_feed_that_got_no_text_is_refused() -> None:
    _, feed = SPEAKER.prompts().open(WHOLE)
    feed.push(" \n")
    with pytest.raises(RequestError, match="text is empty"):
        feed.close()
