from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from ouzel.models.qwen3_tts import packed_linear
from ouzel.models.qwen3_tts.packed_linear import PackedLinear


@pytest.mark.parametrize("onednn", [True, False])
@pytest.mark.parametrize("rows", [1, 7, 300])
@pytest.mark.parametrize(("inputs", "outputs"), [(24, 40), (96, 96), (512, 768)])
def test_it_is_the_linear_layer(
    inputs: int, outputs: int, rows: int, onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_linear, "_available", lambda: onednn)
    torch.manual_seed(0)
    weight, bias = torch.randn(outputs, inputs) / inputs**0.5, torch.randn(outputs)
    x, total = torch.randn(2, rows, inputs), torch.randn(2, rows, outputs)
    linear, before = PackedLinear(weight, bias), total.clone()
    torch.testing.assert_close(linear(x), F.linear(x, weight, bias), rtol=0, atol=1e-5)
    torch.testing.assert_close(linear.added(total, x), total + F.linear(x, weight, bias), rtol=0, atol=1e-5)
    torch.testing.assert_close(PackedLinear(weight)(x), F.linear(x, weight), rtol=0, atol=1e-5)
    assert torch.equal(total, before)


def test_large_weights_are_laid_out_once() -> None:
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    linear = PackedLinear(torch.randn(512, 512))
    assert linear._packed is not None
    assert linear._packed.layout == torch._mkldnn
    assert linear._plain is None
