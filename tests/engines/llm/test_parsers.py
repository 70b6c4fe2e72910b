from __future__ import annotations

import pytest
from tiny_llama import GLM, HERMES, PLAIN

from ouzel.engines.llm.parsers import Reading, reading_of


@pytest.mark.parametrize(
    ("model_type", "template", "reading"),
    [
        ("llama", None, Reading()),
        ("llama", PLAIN, Reading()),
        ("llama", HERMES, Reading("hermes")),
        ("llama", GLM, Reading("glm45", "glm45")),
        ("llama", "{{ tools }} <|python_tag|>", Reading("llama3_json")),
        ("llama", "a <tool_call> in an example, but no variable of that name", Reading()),
        ("qwen2", "{{ messages }} <think> </think>", Reading(None, "deepseek_r1")),
        ("qwen3", HERMES, Reading("hermes", "qwen3")),
        ("spark2_5", PLAIN, Reading("glm45", "glm45")),
        ("spark2_5", None, Reading()),
    ],
)
def test_a_model_is_read_by_its_type_or_by_its_template(
    model_type: str, template: str | None, reading: Reading
) -> None:
    assert reading_of(model_type, template) == reading
