"""Rows are held to the official ones in test_fidelity.py; here is what a request may get wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ouzel.errors import NotFoundError, OuzelError, RequestError
from ouzel.models.qwen3_tts.prompt import PromptSpec
from tiny_prompts import CASES
from tiny_speech import side, spec

CUSTOM = spec(CASES["custom"])
INSTRUCTED = spec(CASES["custom_instruct"])
CLONED = spec(CASES["xvector"])
CONTINUED = spec(CASES["icl_long_text"])
DESIGNED = spec(CASES["design"])


def refusal(size: str, model_type: str, wrong: PromptSpec) -> OuzelError:
    with pytest.raises(OuzelError) as caught:
        side(size, model_type).prompts().build(wrong)
    return caught.value


def test_blanks_around_the_text_change_nothing() -> None:
    prompts = side("small", "custom_voice").prompts()
    padded = prompts.build(replace(CUSTOM, text=f"\n {CUSTOM.text}\n"))
    assert torch.equal(padded.rows, prompts.build(CUSTOM).rows)


def test_markup_in_the_text_is_spoken_and_not_obeyed() -> None:
    prompts = side("small", "custom_voice").prompts()
    plain, marked = (prompts.build(replace(CUSTOM, text=text)).rows for text in ("x", "x<|im_end|>"))
    assert len(marked) == len(plain) + len("<|im_end|>")


@pytest.mark.parametrize("text", ["", " \n "])
def test_an_empty_text_is_refused(text: str) -> None:
    error = refusal("small", "custom_voice", replace(CUSTOM, text=text))
    assert isinstance(error, RequestError)
    assert error.param == "text"


def test_an_unknown_voice_is_named_with_the_nearest() -> None:
    error = refusal("small", "custom_voice", replace(CUSTOM, speaker="Rian"))
    assert isinstance(error, NotFoundError)
    assert error.param == "voice"
    assert str(error) == "voice 'Rian' is unknown, did you mean 'ryan'? this checkpoint has eric, ryan"


def test_an_unknown_language_is_named_with_the_nearest() -> None:
    error = refusal("small", "custom_voice", replace(CUSTOM, language="Englisch"))
    assert isinstance(error, RequestError)
    assert error.param == "language"
    assert "did you mean 'english'?" in str(error)
    assert "sichuan_dialect" not in str(error)


@pytest.mark.parametrize(
    ("size", "model_type", "wrong", "param"),
    [
        ("small", "custom_voice", replace(CUSTOM, speaker=None), "voice"),
        ("small", "custom_voice", replace(CUSTOM, instruct="fast"), "instructions"),
        ("small", "custom_voice", replace(CLONED, speaker="ryan"), "voice"),
        ("small", "custom_voice", CLONED, "ref_audio"),
        ("small", "base", replace(CLONED, speaker_embedding=None), "ref_audio"),
        ("small", "base", replace(CLONED, speaker_embedding=torch.zeros(7)), "speaker_embedding"),
        ("small", "base", replace(CLONED, instruct="fast"), "instructions"),
        ("small", "base", replace(CONTINUED, speaker_embedding=torch.zeros(64)), "ref_audio"),
        ("small", "base", CUSTOM, "voice"),
        ("large", "voice_design", replace(DESIGNED, speaker="ryan"), "voice"),
    ],
)
def test_a_voice_that_does_not_suit_the_checkpoint_is_refused(
    size: str, model_type: str, wrong: PromptSpec, param: str
) -> None:
    assert refusal(size, model_type, wrong).param == param


@pytest.mark.parametrize("shape", [(0, 16), (5, 15), (16,)])
def test_reference_codes_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    assert CONTINUED.reference is not None
    wrong = replace(CONTINUED, reference=replace(CONTINUED.reference, codes=torch.zeros(shape, dtype=torch.int64)))
    assert "expected [frames, 16]" in str(refusal("small", "base", wrong))


def test_a_reference_without_its_text_is_refused() -> None:
    assert CONTINUED.reference is not None
    wrong = replace(CONTINUED, reference=replace(CONTINUED.reference, text=" "))
    assert refusal("small", "base", wrong).param == "ref_text"


def test_a_reference_needs_the_whole_text_at_once() -> None:
    with pytest.raises(RequestError, match="whole text"):
        side("small", "base").prompts().open(CONTINUED)
