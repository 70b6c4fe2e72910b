from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.errors import CheckpointError
from ouzel.models.qwen3_tts.tokenizer import TextTokenizer
from tiny_speech import goldens, side
from tiny_talker import TEXTS, write_tokenizer

TOKENIZER = side("small", "custom_voice").tokenizer


@pytest.mark.parametrize("place", range(len(TEXTS)))
def test_tokens_are_the_official_ones(place: int) -> None:
    assert TOKENIZER.encode(TEXTS[place]) == goldens()[f"tokens.{place}"].tolist()


@given(st.text(st.characters(codec="utf-8", max_codepoint=0x7F)))
def test_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode_plain(text)) == text


def test_markup_is_one_token_where_it_is_obeyed_and_text_where_it_is_not() -> None:
    assert len(TOKENIZER.encode("<|im_end|>")) == 1
    assert TOKENIZER.decode(TOKENIZER.encode_plain("<|im_end|>")) == "<|im_end|>"
    assert len(TOKENIZER.encode_plain("<|im_end|>")) > 1
    assert len(TOKENIZER.encode("<|im_end|>")) == 1


@given(st.text(max_size=12), st.text(max_size=6))
def test_certain_letters_keep_their_tokens_whatever_follows(text: str, more: str) -> None:
    certain = text[: TOKENIZER.certain(text)]
    tokens = TOKENIZER.encode_plain(certain)
    assert TOKENIZER.encode_plain(text + more)[: len(tokens)] == tokens


def test_size_covers_special_tokens() -> None:
    assert TOKENIZER.size == max(TOKENIZER.encode("<tts_text_eod>")) + 1


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "tokenizer_config.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    write_tokenizer(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name} is missing"):
        TextTokenizer(tmp_path)


def test_a_merge_of_unknown_tokens_is_named(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    (tmp_path / "merges.txt").write_text("#version: 0.2\na s\nq w\n")
    with pytest.raises(CheckpointError, match=r"merges\.txt:3: 'q w' merges tokens"):
        TextTokenizer(tmp_path)


@pytest.mark.parametrize("lines", [0, 1, -1])
def test_merges_that_end_too_early_are_named(tmp_path: Path, lines: int) -> None:
    write_tokenizer(tmp_path)
    file = tmp_path / "merges.txt"
    file.write_text("".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[:lines]), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"merges\.txt is torn: nothing in it makes"):
        TextTokenizer(tmp_path)


def test_a_special_token_at_another_id_is_named(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    file.write_text(file.read_text().replace('"298"', '"950"'))
    with pytest.raises(CheckpointError, match=r"added_tokens_decoder\.\d+ is .* which got id"):
        TextTokenizer(tmp_path)
