from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from tiny_llama import write_llama

from ouzel.errors import CheckpointError, RequestError
from ouzel.tools.fidelity.text import PASSAGE, read_ids, read_prompts, windows


def test_each_token_after_the_first_half_window_is_scored_once() -> None:
    cut = windows(range(25), 8)
    assert {len(window) for window in cut} == {8}
    assert [token for window in cut for token in window[4:]] == list(range(4, 24))
    assert all(after[:4] == before[4:] for before, after in pairwise(cut))


@pytest.mark.parametrize(("tokens", "size", "message"), [(7, 8, "the text has 7 tokens"), (9, 7, "has no halves")])
def test_what_cannot_be_cut_is_refused(tokens: int, size: int, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        windows(range(tokens), size)


def test_the_text_is_long_enough_and_of_one_alphabet() -> None:
    text = PASSAGE.read_text(encoding="utf-8")
    assert 30_000 < len(text) < 50_000
    assert text.startswith("Sometimes, having had a surfeit of human society")
    assert {letter for letter in text if ord(letter) > 126} <= set("ºæ")


def test_there_are_twelve_prompts() -> None:
    assert len(set(read_prompts())) == len(read_prompts()) == 12
    assert all(prompt == prompt.strip() != "" for prompt in read_prompts())


def test_tokens_are_the_checkpoints_without_special_ones(tmp_path: Path) -> None:
    assert read_ids(write_llama(tmp_path / "tiny"), ["AB", "B"]) == [(36, 37), (37,)]


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is missing"):
        read_ids(tmp_path, ["x"])
