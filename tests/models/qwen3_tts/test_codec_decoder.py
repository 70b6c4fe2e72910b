from __future__ import annotations

import torch

import tiny_codec
from tiny_ours import goldens, tiny_decoder

CODES = torch.from_numpy(tiny_codec.tiny_codes())
BAR = 1e-4


def test_one_pass_is_the_official_waveform() -> None:
    samples = tiny_decoder()(CODES)[0]
    assert samples.shape == (1920 * tiny_codec.FRAMES,)
    torch.testing.assert_close(samples[:: tiny_codec.KEPT_EVERY], goldens()["decoder.samples"], rtol=0, atol=BAR)


def test_no_frame_strays_between_the_kept_samples() -> None:
    frames = tiny_decoder()(CODES)[0].double().view(tiny_codec.FRAMES, -1)
    torch.testing.assert_close(frames.mean(1), goldens()["decoder.frame_mean"], rtol=0, atol=BAR / 10)
    torch.testing.assert_close(frames.square().mean(1).sqrt(), goldens()["decoder.frame_rms"], rtol=0, atol=BAR / 10)


def test_the_golden_is_sound_and_does_not_clip() -> None:
    samples = goldens()["decoder.samples"]
    assert 0.05 < samples.square().mean().sqrt() < 0.3
    assert samples.abs().max() < 0.95


def test_rows_of_a_batch_are_independent() -> None:
    decoder = tiny_decoder()
    codes = CODES[..., :5]
    together = decoder(torch.cat((codes, codes.flip(-1))))
    torch.testing.assert_close(together[:1], decoder(codes), rtol=0, atol=1e-5)
    torch.testing.assert_close(together[1:], decoder(codes.flip(-1)), rtol=0, atol=1e-5)


def test_a_frame_changes_nothing_before_it() -> None:
    decoder = tiny_decoder()
    changed = CODES.clone()
    changed[..., 90:] = (changed[..., 90:] + 1) % tiny_codec.DECODER["codebook_size"]
    before, after = decoder(CODES), decoder(changed)
    torch.testing.assert_close(before[:, : 90 * 1920], after[:, : 90 * 1920], rtol=0, atol=1e-5)
    assert (before[:, 90 * 1920 :] - after[:, 90 * 1920 :]).abs().max() > 0.1
