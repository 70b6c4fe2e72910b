from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from ouzel.errors import RequestError
from ouzel.tools.stand_in_tokenizer import CONTROLS, END_IDS, MARKS, TEMPLATE, write_tokenizer

SIZE = 1024
CALL = {"function": {"name": "weather", "arguments": {"city": "Oslo", "days": 2}}}


@cache
def tokenizer() -> Tokenizer:
    with TemporaryDirectory() as folder:
        write_tokenizer(Path(folder), SIZE)
        return Tokenizer.from_file(f"{folder}/tokenizer.json")


def render(messages: list[dict[str, Any]], **others: Any) -> str:
    """As transformers renders a chat template."""

    def refuse(complaint: str) -> None:
        raise jinja2.TemplateError(complaint)

    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    return environment.from_string(TEMPLATE).render(messages=messages, **others)


@given(st.text())
def test_text_comes_back_as_it_was(text: str) -> None:
    assert tokenizer().decode(tokenizer().encode(text).ids, skip_special_tokens=False) == text


def test_a_token_is_a_byte_and_a_mark_is_one_token() -> None:
    assert len(tokenizer().encode("füße").ids) == 6
    for mark in (*CONTROLS, *MARKS):
        assert tokenizer().encode(f"a{mark}b").tokens[1] == mark


def test_every_id_is_text_of_its_own() -> None:
    assert tokenizer().get_vocab_size() == SIZE
    words = [tokenizer().decode([id_]) for id_ in range(len(CONTROLS) + len(MARKS) + 256, SIZE)]
    assert all(words)
    assert len(set(words)) == len(words)
    assert words[:2] == [" ba", " be"]


def test_controls_are_left_out_of_an_answer_and_marks_are_not() -> None:
    ids = tokenizer().encode("<think>a</think>b<|user|>").ids
    assert tokenizer().decode(ids) == "<think>a</think>b"
    assert ids[-1] in END_IDS


def test_a_vocabulary_without_room(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="a vocabulary of 200 has no room for 273"):
        write_tokenizer(tmp_path, 200)


def test_a_conversation_is_laid_out() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Weather?"},
    ]
    said = "[gMASK]<sop><|system|>\nBe brief.<|user|>\nHi<|assistant|>\nHello.<|user|>\nWeather?"
    assert render(messages) == said
    assert render(messages, add_generation_prompt=True) == f"{said}<|assistant|>\n"
    assert render(messages, add_generation_prompt=True, enable_thinking=False).endswith(
        "<|assistant|>\n<think></think>"
    )


def test_a_call_and_its_answer_are_laid_out() -> None:
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]},
        {"role": "tool", "content": "rain"},
    ]
    call = "<tool_call>weather<arg_key>city</arg_key><arg_value>Oslo</arg_value>"
    call += "<arg_key>days</arg_key><arg_value>2</arg_value></tool_call>"
    expected = f"[gMASK]<sop><|assistant|>\n{call}{call}<|observation|>\n<tool_response>rain</tool_response>"
    assert render(messages) == expected


def test_tools_are_described() -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    system = render([{"role": "user", "content": "Hi"}], tools=[tool]).split("<|user|>")[0]
    assert json.dumps(tool["function"], sort_keys=True) in system
    assert "<tool_call>name<arg_key>key</arg_key>" in system


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(jinja2.TemplateError, match="no role wizard: system, user"):
        render([{"role": "wizard", "content": "Hi"}])
