from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from ouzel.engines.llm.kv import BlockCount


@dataclass
class Full:
    block_size: int


@dataclass
class Window:
    block_size: int
    window: int

    def max_admission_blocks_per_request(self, in_flight: int, tokens: int) -> int:
        return -(-min(self.window - 1 + in_flight, tokens) // self.block_size) + 1


def test_a_request_holds_whole_blocks_and_one_is_never_given_out() -> None:
    blocks = BlockCount([Full(128)], 32, 64)
    assert blocks.capacity == 31
    assert [blocks.of(tokens) for tokens in (1, 128, 129, 512)] == [1, 1, 2, 4]


@given(st.integers(1, 10_000))
def test_layers_with_a_window_hold_no_more_than_it(tokens: int) -> None:
    whole = BlockCount([Full(128)], 100, 64).of(tokens)
    window = BlockCount([Window(128, 512)], 100, 64).of(tokens)
    assert window <= min(whole, 6)
    assert BlockCount([Full(128), Window(128, 512)], 100, 64).of(tokens) == whole + window
