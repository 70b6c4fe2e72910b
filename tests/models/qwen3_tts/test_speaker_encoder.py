from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import tiny_codec
from ouzel.errors import RequestError
from tiny_ours import goldens, tiny_speaker_encoder

BAR = 1e-4


@pytest.mark.parametrize(("name", "samples"), [("noise", tiny_codec.noise()), ("chirp", tiny_codec.chirp())])
def test_embedding_is_the_official_one(name: str, samples: NDArray[np.float32]) -> None:
    embedding = tiny_speaker_encoder().embed(torch.from_numpy(samples))
    assert embedding.shape == (tiny_codec.SPEAKER["enc_dim"],)
    torch.testing.assert_close(embedding, goldens()[f"speaker.{name}.embedding"], rtol=0, atol=BAR)


def test_voices_differ_by_far_more_than_the_bar() -> None:
    noise, chirp = goldens()["speaker.noise.embedding"], goldens()["speaker.chirp.embedding"]
    assert (noise - chirp).abs().max() > 100 * BAR


def test_reflected_edges_matter() -> None:
    encoder = tiny_speaker_encoder()
    for module in encoder.modules():
        if isinstance(module, torch.nn.Conv1d):
            module.padding_mode = "zeros"
    strayed = encoder.embed(torch.from_numpy(tiny_codec.chirp())) - goldens()["speaker.chirp.embedding"]
    assert strayed.abs().max() > 100 * BAR


def test_the_shortest_recording_passes_and_a_shorter_one_is_refused() -> None:
    encoder = tiny_speaker_encoder()
    shortest = torch.from_numpy(tiny_codec.noise())[:1280]
    assert encoder.embed(shortest).isfinite().all()
    with pytest.raises(RequestError, match="at least 1280 samples") as caught:
        encoder.embed(shortest[:-1])
    assert caught.value.param == "ref_audio"
