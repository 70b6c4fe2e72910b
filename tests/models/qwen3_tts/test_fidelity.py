"""The official package's answers, in fp32, over every variant and layout (goldens: tests/oracle)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ouzel.models.qwen3_tts import layers
from ouzel.models.qwen3_tts.predictor import CodePredictor
from ouzel.models.qwen3_tts.prompt import Prompt
from ouzel.models.qwen3_tts.talker import Talker
from tiny_prompts import CASES, FRAMES
from tiny_speech import goldens, greedy, side, speak, spec, teacher_forced, trainable

PROMPT_BAR = 1e-5
LOGPROB_BAR = 1e-4


def golden_codes(name: str) -> Tensor:
    return goldens()[f"{name}.codes"].long()


def golden_prompt(name: str) -> Prompt:
    return Prompt(*(goldens()[f"{name}.{part}"] for part in ("rows", "trailing", "pad")))


@torch.no_grad()
def logprob_error(name: str, talker: Talker, predictor: CodePredictor) -> float:
    """The largest difference among the official top 20 of every draw that was kept."""
    found = teacher_forced(talker, predictor, golden_prompt(name), golden_codes(name))
    errors = []
    for part, logprobs in zip(("talker", "predictor"), found, strict=True):
        expected = goldens()[f"{name}.{part}_logprobs"]
        ids = goldens()[f"{name}.{part}_ids"].long()
        errors.append((logprobs[: len(ids)].gather(-1, ids) - expected).abs().max())
    return float(torch.stack(errors).max())


@pytest.mark.parametrize("name", CASES)
def test_prompts_are_the_official_ones(name: str) -> None:
    case = CASES[name]
    prompt = side(case.size, case.model_type).prompts().build(spec(case))
    expected = golden_prompt(name)
    torch.testing.assert_close(prompt.rows, expected.rows, rtol=0, atol=PROMPT_BAR)
    torch.testing.assert_close(prompt.pad, expected.pad, rtol=0, atol=PROMPT_BAR)
    # The official trailing text ends in one row of padding where ours is over.
    trailing = torch.cat((prompt.trailing, prompt.pad.expand(len(expected.trailing) - len(prompt.trailing), -1)))
    torch.testing.assert_close(trailing, expected.trailing, rtol=0, atol=PROMPT_BAR)


@pytest.mark.parametrize("name", CASES)
def test_greedy_codes_are_the_official_ones(name: str) -> None:
    case = CASES[name]
    speaker = side(case.size, case.model_type)
    codes = speak(speaker, speaker.prompts().build(spec(case)), greedy(minimum=FRAMES + 1), FRAMES)
    assert torch.equal(codes, golden_codes(name))


@pytest.mark.parametrize("name", CASES)
def test_speech_ends_where_the_official_speech_ends(name: str) -> None:
    case = CASES[name]
    speaker = side(case.size, case.model_type)
    codes = speak(speaker, speaker.prompts().build(spec(case)), greedy(minimum=2), FRAMES)
    assert len(codes) == goldens()[f"{name}.frames"]


@pytest.mark.parametrize("name", CASES)
def test_logprobs_are_the_official_ones(name: str) -> None:
    case = CASES[name]
    assert logprob_error(name, *trainable(case.size, case.model_type)) < LOGPROB_BAR


def each_attention(model: layers.Backbone, change: Callable[[layers.Attention], None]) -> None:
    for layer in model.layers:
        change(layer.self_attn)


def no_head_norms(attention: layers.Attention) -> None:
    attention.q_norm = attention.k_norm = nn.Identity()


def other_sharing(attention: layers.Attention) -> None:
    # Heads take turns with the keys instead of standing in groups.
    heads = attention.q_proj.weight.data.unflatten(0, (-1, attention.head_dim))
    attention.q_proj.weight.data = torch.cat((heads[::2], heads[1::2])).flatten(0, 1)
    back = attention.o_proj.weight.data.unflatten(1, (-1, attention.head_dim))
    attention.o_proj.weight.data = torch.cat((back[:, ::2], back[:, 1::2]), 1).flatten(1)


def talker_without_head_norms(talker: Talker, predictor: CodePredictor) -> None:
    each_attention(talker.model, no_head_norms)


def predictor_without_head_norms(talker: Talker, predictor: CodePredictor) -> None:
    each_attention(predictor.model, no_head_norms)


def talker_shares_keys_otherwise(talker: Talker, predictor: CodePredictor) -> None:
    each_attention(talker.model, other_sharing)


def no_rope(model: layers.Backbone) -> None:
    cos, sin = model.rope.tables(512, model.norm.weight)
    model.rope.tables = lambda *_: (torch.ones_like(cos), torch.zeros_like(sin))  # type: ignore[method-assign]


def talker_without_rope(talker: Talker, predictor: CodePredictor) -> None:
    no_rope(talker.model)


def predictor_without_rope(talker: Talker, predictor: CodePredictor) -> None:
    no_rope(predictor.model)


def talker_with_the_codecs_theta(talker: Talker, predictor: CodePredictor) -> None:
    talker.model.rope = layers.Rope(32, theta=1e4)


def predictor_before_the_final_norm(talker: Talker, predictor: CodePredictor) -> None:
    talker.codec_head = nn.Sequential(talker.model.norm, talker.codec_head)
    talker.model.norm = nn.Identity()


def predictor_without_projection_bias(talker: Talker, predictor: CodePredictor) -> None:
    predictor.small_to_mtp_projection.bias.data.zero_()


def frames_without_their_last_code(talker: Talker, predictor: CodePredictor) -> None:
    predictor.model.codec_embedding[-1].weight.data.zero_()


def gates_without_silu(talker: Talker, predictor: CodePredictor) -> None:
    for layer in talker.model.layers:
        layer.mlp.forward = lambda x, mlp=layer.mlp: mlp.down_proj(mlp.gate_proj(x) * mlp.up_proj(x))


@pytest.mark.parametrize(
    "switch_off",
    [
        talker_without_head_norms,
        predictor_without_head_norms,
        talker_shares_keys_otherwise,
        talker_without_rope,
        predictor_without_rope,
        talker_with_the_codecs_theta,
        predictor_before_the_final_norm,
        predictor_without_projection_bias,
        frames_without_their_last_code,
        gates_without_silu,
    ],
)
def test_every_trait_of_the_model_is_noticed(switch_off: Callable[[Talker, CodePredictor], None]) -> None:
    talker, predictor = trainable("large", "custom_voice")
    with torch.no_grad():
        switch_off(talker, predictor)
    assert logprob_error("custom_instruct", talker, predictor) > 100 * LOGPROB_BAR


@pytest.mark.parametrize("tensor", ["linear_fc1.bias", "linear_fc2.bias", "linear_fc2.weight"])
def test_every_trait_of_the_prompt_is_noticed(tensor: str) -> None:
    case = CASES["custom"]
    speaker = side(case.size, case.model_type)
    parameter = speaker.talker.text_projection.get_parameter(tensor)
    kept = parameter.clone()
    parameter.zero_()
    rows = speaker.prompts().build(spec(case)).rows
    parameter.copy_(kept)
    assert float((rows - golden_prompt("custom").rows).abs().max()) > 100 * PROMPT_BAR
