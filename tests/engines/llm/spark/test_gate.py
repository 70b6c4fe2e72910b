from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from ouzel.engines.llm.spark.gate import MANY_ROWS, HeadGate

HIDDEN, HEADS, SIZE = 24, 4, 6


def inputs(rows: int, dtype: torch.dtype) -> tuple[HeadGate, torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows)
    gate = HeadGate(HIDDEN, HEADS).to(dtype)
    gate.weight.copy_(torch.randn(HEADS, HIDDEN))
    return gate, torch.randn(rows, HIDDEN).to(dtype), torch.randn(rows, HEADS * SIZE).to(dtype)


@pytest.mark.parametrize("rows", [1, MANY_ROWS - 1, MANY_ROWS, 100])
def test_each_head_is_scaled_by_its_own_sigmoid(rows: int) -> None:
    gate, x, attended = inputs(rows, torch.float32)
    gated = gate(x, attended)
    for row in range(rows):
        for head in range(HEADS):
            scale = 1 / (1 + torch.exp(-(gate.weight[head] @ x[row])))
            part = slice(head * SIZE, (head + 1) * SIZE)
            torch.testing.assert_close(gated[row, part], attended[row, part] * scale)


@pytest.mark.parametrize("rows", [1, MANY_ROWS])
def test_it_computes_in_float32_and_answers_in_the_models_dtype(rows: int) -> None:
    gate, x, attended = inputs(rows, torch.bfloat16)
    gated = gate(x, attended)
    exact = gate.float()(x.float(), attended.float())
    assert gated.dtype == torch.bfloat16
    assert torch.equal(gated, exact.to(torch.bfloat16))


def test_the_compiler_gets_the_right_shape_and_no_look_inside() -> None:
    gate, x, attended = inputs(3, torch.float32)
    trace = make_fx(lambda *tensors: gate(*tensors), tracing_mode="fake", _allow_non_fake_inputs=True)
    graph = trace(x, attended).graph
    calls = [node for node in graph.nodes if node.op == "call_function"]
    assert [str(node.target) for node in calls] == ["ouzel.head_gate.default"]
    assert calls[0].meta["tensor_meta"].shape == attended.shape
