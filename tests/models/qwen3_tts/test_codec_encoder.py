from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import tiny_codec
from ouzel.errors import RequestError
from ouzel.models.qwen3_tts import codec_encoder
from ouzel.models.qwen3_tts.codec_encoder import CodecEncoder
from tiny_ours import goldens, tiny_encoder

RECORDINGS = {"noise": torch.from_numpy(tiny_codec.noise())[None], "chirp": torch.from_numpy(tiny_codec.chirp())[None]}
BAR = 1e-4


@pytest.mark.parametrize("name", RECORDINGS)
def test_codes_are_the_official_ones(name: str) -> None:
    codes = tiny_encoder().encode(RECORDINGS[name])
    assert torch.equal(codes, goldens()[f"encoder.{name}.codes"].long())


@pytest.mark.parametrize("name", RECORDINGS)
def test_latent_is_the_official_one(name: str) -> None:
    latent = tiny_encoder().latent(RECORDINGS[name])
    torch.testing.assert_close(latent, goldens()[f"encoder.{name}.latent"], rtol=0, atol=BAR)


@pytest.mark.parametrize(("samples", "frames"), [(1, 1), (1919, 1), (1920, 1), (1921, 2), (19200, 10)])
def test_a_started_frame_counts(samples: int, frames: int) -> None:
    codes = tiny_encoder().encode(RECORDINGS["noise"][:, :samples])
    assert codes.shape == (1, tiny_codec.VALID_QUANTIZERS, frames)


@pytest.mark.parametrize("shape", [(1, 0), (1920,)])
def test_a_recording_that_is_none_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(RequestError, match="ref_audio") as caught:
        tiny_encoder().encode(torch.zeros(shape))
    assert caught.value.param == "ref_audio"


def zero_padding(encoder: CodecEncoder, patch: pytest.MonkeyPatch) -> None:
    encoder.downsample.pad_mode = "constant"


def no_rope(encoder: CodecEncoder, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(codec_encoder, "_rotate", lambda x, cos, sin: x)


def no_layer_scale(encoder: CodecEncoder, patch: pytest.MonkeyPatch) -> None:
    for layer in encoder.encoder_transformer.layers:
        layer.self_attn_layer_scale.scale.fill_(1.0)
        layer.mlp_layer_scale.scale.fill_(1.0)


@pytest.mark.parametrize("switch_off", [zero_padding, no_rope, no_layer_scale])
def test_each_trait_matters(
    switch_off: Callable[[CodecEncoder, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = tiny_encoder()
    switch_off(encoder, monkeypatch)
    strayed = (encoder.latent(RECORDINGS["chirp"]) - goldens()["encoder.chirp.latent"]).abs().max()
    assert strayed > 100 * BAR
    assert not torch.equal(encoder.encode(RECORDINGS["chirp"]), goldens()["encoder.chirp.codes"].long())
