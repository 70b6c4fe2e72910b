"""How much of vLLM's KV cache a request can come to hold, in the blocks that it is cut into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["BlockCount"]


class BlockCount:
    """Counts blocks by the layout that the engine chose."""

    def __init__(self, groups: Sequence[Any], blocks: int, in_flight_tokens: int) -> None:
        """
        :param groups: the specification of each group of layers that share blocks
        :param blocks: of the whole cache
        :param in_flight_tokens: most that one step reads
        """
        self._groups = groups
        self._in_flight = in_flight_tokens
        #: One block is never given out: it stands for what slid out of a window.
        self.capacity = blocks - 1

    def of(self, tokens: int) -> int:
        """Blocks that hold so many tokens; layers with a window need fewer."""
        return sum(self._of_group(group, tokens) for group in self._groups)

    def _of_group(self, group: Any, tokens: int) -> int:
        whole = -(-tokens // group.block_size)
        bounded = getattr(group, "max_admission_blocks_per_request", None)
        return whole if bounded is None else min(whole, int(bounded(self._in_flight, tokens)))
