"""Talker and code2wav as one engine core: the two alternate, so each has all threads while it computes."""

from __future__ import annotations

from collections.abc import Sequence

from ouzel.stages.core import (
    CodesChunk,
    DecodeRequest,
    EngineCore,
    Grant,
    SamplesChunk,
    TalkerItem,
    TalkerRequest,
    TextPiece,
)
from ouzel.stages.streams import NewestEpochs
from ouzel.stats.steps import Stats

__all__ = ["SpeechCore", "TalkerEngine", "VocoderEngine"]

TalkerEngine = EngineCore[TalkerRequest, TalkerItem, CodesChunk]
VocoderEngine = EngineCore[DecodeRequest, CodesChunk, SamplesChunk]


class SpeechCore:
    """Text in, sound out."""

    def __init__(self, talker: TalkerEngine, code2wav: VocoderEngine) -> None:
        self._talker = talker
        self._code2wav = code2wav
        self._streams = NewestEpochs()

    @property
    def stats(self) -> Stats:
        """The talker's; code2wav has its own."""
        return self._talker.stats

    @property
    def has_work(self) -> bool:
        return self._talker.has_work or self._code2wav.has_work

    def add(self, request: TalkerRequest) -> None:
        """Take an utterance.

        :raises OuzelError: when the talker can't serve it.
        """
        self._talker.add(request)

    def feed(self, slot: int, item: TextPiece | Grant) -> None:
        self._talker.feed(slot, item)

    def abort(self, slot: int) -> None:
        self._talker.abort(slot)
        self._code2wav.abort(slot)

    def step(self) -> Sequence[SamplesChunk]:
        if self._talker.has_work:
            for chunk in self._talker.step():
                self._hand_on(chunk)
        return self._code2wav.step() if self._code2wav.has_work else ()

    def close(self) -> None:
        self._talker.close()
        self._code2wav.close()

    def _hand_on(self, chunk: CodesChunk) -> None:
        if self._streams.begins(chunk.slot, chunk.epoch, chunk.sequence):
            self._code2wav.abort(chunk.slot)
            self._code2wav.add(DecodeRequest(chunk.slot, chunk.epoch))
        self._code2wav.feed(chunk.slot, chunk)
