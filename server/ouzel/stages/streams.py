"""Which chunk begins a stream: no one announces streams to code2wav, so nothing can arrive before its announcement."""

from __future__ import annotations

__all__ = ["NewestEpochs"]


class NewestEpochs:
    """The newest epoch that each slot has seen or closed; epochs only grow."""

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: dict[int, int] = {}

    def begins(self, slot: int, epoch: int, sequence: int) -> bool:
        """Whether this chunk is the first of a stream that may be decoded; noted as begun."""
        if sequence or epoch <= self._newest.get(slot, -1):
            return False
        self._newest[slot] = epoch
        return True

    def close(self, slot: int, epoch: int) -> None:
        """An epoch that was aborted, perhaps before anything of it came: it doesn't begin any more."""
        self._newest[slot] = max(epoch, self._newest.get(slot, -1))
