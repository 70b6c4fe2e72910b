from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ouzel.errors import EngineError
from ouzel.models.qwen3_tts.checkpoint import load_talker_side
from ouzel.models.qwen3_tts.sampler import SamplingParams
from ouzel.models.qwen3_tts.talker import KVCache
from tiny_prompts import CASES
from tiny_speech import side, speak, spec, start, step, trainable
from tiny_talker import write_checkpoint

SPEAKER = side("small", "custom_voice")
TALKER = SPEAKER.talker
CONFIG = SPEAKER.config.talker


def rows(count: int, seed: int = 0) -> torch.Tensor:
    return 0.2 * torch.randn(count, CONFIG.hidden_size, generator=torch.Generator().manual_seed(seed))


def test_cached_steps_equal_whole_sequences() -> None:
    trained, _ = trainable("small", "custom_voice")
    sequence = rows(12)
    expected = trained(sequence[None])[0].detach()
    cache = KVCache(CONFIG, 12)
    steps = [TALKER.prefill(sequence[:8], cache), *(TALKER.decode(row[None], [cache])[0] for row in sequence[8:])]
    torch.testing.assert_close(torch.stack(steps), expected[7:], rtol=0, atol=1e-5)


@pytest.mark.parametrize("pieces", [[9], [1] * 9, [4, 5], [2, 1, 6]])
def test_prefill_in_pieces_equals_prefill_in_one(pieces: list[int]) -> None:
    whole, parts = KVCache(CONFIG, 16), KVCache(CONFIG, 16)
    expected = TALKER.prefill(rows(9), whole)
    for piece in rows(9).split(pieces):
        hidden = TALKER.prefill(piece, parts)
    torch.testing.assert_close(hidden, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(parts.buffer[..., :9, :], whole.buffer[..., :9, :], rtol=0, atol=1e-5)


def test_requests_of_different_lengths_share_a_step() -> None:
    lengths = (3, 11, 6)
    together, alone = ([KVCache(CONFIG, 20) for _ in lengths] for _ in range(2))
    for i, length in enumerate(lengths):
        TALKER.prefill(rows(length, seed=i), together[i])
        TALKER.prefill(rows(length, seed=i), alone[i])
    for seed in range(10, 14):
        new = rows(3, seed)
        expected = torch.cat([TALKER.decode(new[i : i + 1], [alone[i]]) for i in range(3)])
        torch.testing.assert_close(TALKER.decode(new, together), expected, rtol=0, atol=1e-5)
    assert [cache.length for cache in together] == [7, 15, 10]


def test_a_full_cache_refuses_and_changes_nothing() -> None:
    roomy, full = KVCache(CONFIG, 9), KVCache(CONFIG, 4)
    TALKER.prefill(rows(4), roomy)
    TALKER.prefill(rows(4), full)
    with pytest.raises(EngineError, match="holds 4 of 4 positions, 1 more"):
        TALKER.decode(rows(2), [roomy, full])
    with pytest.raises(EngineError, match="6 more"):
        TALKER.prefill(rows(6), roomy)
    assert (roomy.length, full.length) == (4, 4)


def test_state_dict_has_the_published_names() -> None:
    talker, predictor = trainable("large", "custom_voice")
    assert {"model.text_embedding.weight", "codec_head.weight", "text_projection.linear_fc1.bias"} <= set(
        talker.state_dict()
    )
    assert not any("code_predictor" in key for key in talker.state_dict())
    assert "model.layers.0.self_attn.q_norm.weight" in predictor.state_dict()


def test_requests_decoded_together_say_what_they_say_alone() -> None:
    prompts = SPEAKER.prompts()
    cases = [CASES[name] for name in ("custom", "custom_streaming", "dialect")]
    spoken = [
        prompts.build(spec(case, text)) for case, text in zip(cases, ("Hello", "the user", "12 words"), strict=True)
    ]
    params = [SamplingParams(seed=seed, min_frames=30) for seed in range(3)]
    alone = [speak(SPEAKER, prompt, sampling, 24) for prompt, sampling in zip(spoken, params, strict=True)]
    streams = [start(SPEAKER, prompt, sampling) for prompt, sampling in zip(spoken, params, strict=True)]
    # They join one after the other and leave in another order.
    for frame in range(24 + 10):
        step(SPEAKER, [s for i, s in enumerate(streams) if frame >= 5 * i and len(s.frames) < 24])
    assert all(torch.equal(torch.stack(s.frames), codes) for s, codes in zip(streams, alone, strict=True))


def test_a_seed_repeats_what_is_said_and_another_does_not() -> None:
    prompt = SPEAKER.prompts().build(spec(CASES["custom"]))
    said = [speak(SPEAKER, prompt, SamplingParams(seed=seed, min_frames=20), 12) for seed in (1, 1, 2)]
    assert torch.equal(said[0], said[1])
    assert not torch.equal(said[0], said[2])


def test_bfloat16_speaks_nearly_the_same(tmp_path: Path) -> None:
    half = load_talker_side(write_checkpoint(tmp_path, "small", "custom_voice"), dtype=torch.bfloat16)
    case = spec(CASES["custom"])
    cache = KVCache(CONFIG, 64, torch.bfloat16)
    hidden = half.talker.prefill(half.prompts().build(case).rows, cache)
    exact = TALKER.prefill(SPEAKER.prompts().build(case).rows, KVCache(CONFIG, 64))
    assert torch.nn.functional.cosine_similarity(hidden.float(), exact, dim=0) > 0.999
    frame = half.predictor.predict(hidden[None], torch.tensor([3]), lambda logits, _: logits.argmax(-1), half.talker)
    row = half.predictor.embed_sum(frame, half.talker)
    assert half.talker.decode(row, [cache]).dtype == torch.bfloat16
