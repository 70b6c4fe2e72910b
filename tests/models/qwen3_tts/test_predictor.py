from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tiny_speech import side, trainable


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("batch", [1, 3])
def test_cached_steps_equal_teacher_forcing(size: str, batch: int) -> None:
    served = side(size, "custom_voice")
    talker, predictor = trainable(size, "custom_voice")
    draw = torch.Generator().manual_seed(0)
    hidden = torch.randn(batch, 64, generator=draw)
    codes = torch.randint(0, 128, (batch, 16), generator=draw)
    seen: list[Tensor] = []

    def sample(logits: Tensor, group: int) -> Tensor:
        seen.append(logits.clone())
        return codes[:, group]

    frames = served.predictor.predict(hidden, codes[:, 0], sample, served.talker)
    assert torch.equal(frames, codes)
    expected = predictor(hidden, codes, talker).detach()
    torch.testing.assert_close(torch.stack(seen, dim=1), expected, rtol=0, atol=1e-5)


def test_a_larger_batch_does_not_disturb_a_smaller_one() -> None:
    speaker = side("small", "custom_voice")
    hidden = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    c0 = torch.tensor([1, 2, 3, 4])

    def predict(rows: slice) -> Tensor:
        return speaker.predictor.predict(hidden[rows], c0[rows], lambda logits, _: logits.argmax(-1), speaker.talker)

    first = predict(slice(0, 2))
    assert torch.equal(predict(slice(0, 4))[:2], first)
    assert torch.equal(predict(slice(0, 2)), first)


def test_a_frames_row_is_the_sum_of_its_codes() -> None:
    speaker = side("large", "custom_voice")
    codes = torch.arange(32).view(2, 16)
    expected = speaker.talker.model.codec_embedding.weight[codes[:, 0]].clone()
    for group in range(1, 16):
        expected += speaker.predictor.model.codec_embedding[group - 1].weight[codes[:, group]]
    torch.testing.assert_close(speaker.predictor.embed_sum(codes, speaker.talker), expected)


def test_gradients_reach_every_parameter_but_the_last_embedding() -> None:
    talker, predictor = trainable("large", "custom_voice")
    hidden = torch.randn(5, 64)
    codes = torch.randint(0, 128, (5, 16))
    predictor(hidden, codes, talker).square().sum().backward()
    untouched = {name for name, parameter in predictor.named_parameters() if parameter.grad is None}
    assert untouched == {"model.codec_embedding.14.weight"}
