from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ouzel.errors import EngineError, RequestError
from ouzel.models.qwen3_tts.sampler import Sampler, SamplingParams, distribution
from tiny_prompts import PROCESSINGS, processing_input
from tiny_speech import goldens, side

TALKER = side("small", "custom_voice").config.talker
GENERATION = side("small", "custom_voice").generation


def logits(seed: int) -> torch.Tensor:
    return torch.randn(TALKER.vocab_size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", PROCESSINGS)
def test_probabilities_are_those_of_the_official_processors(name: str) -> None:
    setting = PROCESSINGS[name]
    given_logits, drawn = processing_input(name, TALKER.vocab_size)
    params = SamplingParams(repetition_penalty=setting.repetition_penalty, min_frames=setting.min_frames)
    sampler = Sampler(params, TALKER)
    for code in drawn.tolist():
        sampler._remember(code)
    scores = sampler.process_c0(torch.from_numpy(given_logits))
    ids, probabilities = distribution(scores, setting.temperature, setting.top_k, setting.top_p)
    expected = goldens()[f"processing.{name}"]
    torch.testing.assert_close(torch.zeros_like(expected).index_add(0, ids, probabilities), expected, rtol=1e-5, atol=0)


def test_a_seed_repeats_its_draws_and_another_does_not() -> None:
    def draws(seed: int) -> list[int]:
        sampler = Sampler(SamplingParams(seed=seed), TALKER)
        return [sampler.sample_c0(logits(i)) for i in range(20)] + [sampler.sample_group(logits(i)) for i in range(20)]

    assert draws(3) == draws(3) != draws(4)


def test_rows_keep_their_own_draws() -> None:
    rows = torch.stack([logits(1), logits(2)])
    alone = Sampler(SamplingParams(seed=8), TALKER)
    together = [Sampler(SamplingParams(seed=seed), TALKER) for seed in (7, 8)]
    for _ in range(10):
        assert [one.sample_group(row) for one, row in zip(together, rows, strict=True)][1] == alone.sample_group(
            rows[1]
        )


def test_draws_follow_the_distribution() -> None:
    sampler = Sampler(SamplingParams(seed=0, sub_temperature=1.0, sub_top_k=0), TALKER)
    weights = torch.tensor([0.5, 0.0, 0.3, 0.2])
    counts = torch.bincount(torch.tensor([sampler.sample_group(weights.log()) for _ in range(4000)]), minlength=4)
    torch.testing.assert_close(counts / 4000, weights, rtol=0, atol=0.03)


@given(st.integers(0, 2**32), st.integers(0, 60), st.sampled_from([0.3, 0.9, 1.0]))
def test_only_codes_and_the_end_are_ever_drawn(seed: int, top_k: int, top_p: float) -> None:
    sampler = Sampler(SamplingParams(seed=seed, top_k=top_k, top_p=top_p, temperature=3.0), TALKER)
    for frame in range(4):
        code = sampler.sample_c0(logits(seed % 1000 + frame))
        assert code < TALKER.first_special_id or (code == TALKER.ids.eos and frame >= 2)


def test_speech_cannot_end_before_the_minimum() -> None:
    sampler = Sampler(SamplingParams(do_sample=False), TALKER)
    wants_to_end = torch.zeros(TALKER.vocab_size)
    wants_to_end[TALKER.ids.eos] = 50.0
    assert [sampler.sample_c0(wants_to_end) == TALKER.ids.eos for _ in range(3)] == [False, False, True]


def test_the_penalty_is_for_codes_of_codebook_0_alone() -> None:
    sampler = Sampler(SamplingParams(do_sample=False, sub_do_sample=False, repetition_penalty=2.0), TALKER)
    liked = torch.zeros(TALKER.vocab_size)
    liked[5], liked[6] = 3.0, 2.0
    assert [sampler.sample_c0(liked) for _ in range(2)] == [5, 6]
    assert [sampler.sample_group(liked) for _ in range(2)] == [5, 5]


def test_logits_are_left_as_they_were() -> None:
    row = logits(0)
    kept = row.clone()
    Sampler(SamplingParams(seed=0), TALKER).sample_c0(row)
    assert torch.equal(row, kept)


def test_ties_with_the_last_of_the_top_k_stay() -> None:
    ids, probabilities = distribution(torch.tensor([1.0, 2.0, 1.0, 0.0]), 1.0, 2, 1.0)
    assert ids.tolist() == [0, 1, 2]
    assert probabilities[0] == probabilities[2]


def test_logits_that_are_not_numbers_are_a_fault() -> None:
    with pytest.raises(EngineError, match="not numbers"):
        Sampler(SamplingParams(seed=0), TALKER).sample_group(torch.full((8,), torch.nan))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0.0),
        ("sub_temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("sub_top_p", 1.5),
        ("repetition_penalty", -1.0),
        ("seed", -1),
        ("seed", 1 << 63),
    ],
)
def test_values_out_of_range_are_named(name: str, value: float) -> None:
    with pytest.raises(RequestError, match=f"{name} is {value}") as caught:
        SamplingParams(**{name: value})
    assert caught.value.param == name


def test_a_checkpoints_defaults_yield_to_wishes() -> None:
    params = SamplingParams.of(GENERATION, temperature=0.5, seed=1)
    assert (params.temperature, params.seed, params.top_k) == (0.5, 1, GENERATION.top_k)
