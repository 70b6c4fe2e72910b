from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import tiny_codec
from ouzel.models.qwen3_tts.speaker_mel import speaker_mel
from tiny_ours import goldens


@pytest.mark.parametrize(("name", "samples"), [("noise", tiny_codec.noise()), ("chirp", tiny_codec.chirp())])
def test_mel_is_the_official_one(name: str, samples: NDArray[np.float32]) -> None:
    mel = speaker_mel(torch.from_numpy(samples), sample_rate=24000, mels=128)
    torch.testing.assert_close(mel, goldens()[f"speaker.{name}.mel"], rtol=0, atol=1e-5)


def test_a_tone_lights_up_its_band() -> None:
    tone = torch.sin(2 * torch.pi * 1000 * torch.arange(4096) / 24000)
    bands = speaker_mel(tone, sample_rate=24000, mels=128).mean(0)
    # 1 kHz is 15 mel on Slaney's scale, 12 kHz is 15 + 27 ln(12) / ln(6.4) = 51.1: band 15 / 51.1 of 129 steps.
    assert int(bands.argmax()) == pytest.approx(15 / 51.1 * 129 - 1, abs=1)


def test_silence_is_the_floor() -> None:
    mel = speaker_mel(torch.zeros(2560), sample_rate=24000, mels=128)
    assert mel.shape == (10, 128)
    torch.testing.assert_close(mel, torch.full_like(mel, 1e-5).log())
