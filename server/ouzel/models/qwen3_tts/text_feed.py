"""Text that arrives in pieces, as rows for the streaming layout."""

from __future__ import annotations

import unicodedata

import torch
from torch import Tensor

from ouzel.errors import RequestError
from ouzel.models.qwen3_tts.config import Qwen3TTSConfig
from ouzel.models.qwen3_tts.talker import Talker
from ouzel.models.qwen3_tts.tokenizer import TextTokenizer

__all__ = ["TextFeed"]


class TextFeed:
    """Turns pieces into the rows that the whole text would have had: a token leaves once no later text can change it.

    The first row ends the prompt (its codec side is codec_bos); those after it are trailing rows.
    """

    def __init__(self, talker: Talker, tokenizer: TextTokenizer, config: Qwen3TTSConfig) -> None:
        self._talker = talker
        self._tokenizer = tokenizer
        self._bos = config.talker.ids.bos
        self._eos = config.text_ids.tts_eos
        self._held = ""
        self._started = False

    def push(self, piece: str) -> Tensor:
        """Rows that became certain with `piece`, perhaps none."""
        # -> [N, H]
        # Composed first, as the tokenizer will: an accent may arrive after its letter.
        self._held = unicodedata.normalize("NFC", self._held + piece)
        if not self._started:
            self._held = self._held.lstrip()
        cut = self._tokenizer.certain(self._held)
        certain, self._held = self._held[:cut], self._held[cut:]
        return self._rows(self._tokenizer.encode_plain(certain))

    def close(self) -> Tensor:
        """The rows still held back, and the end of the text. Raises `RequestError` when no text has come at all."""
        # -> [N, H]
        rest = self._tokenizer.encode_plain(self._held.rstrip())
        self._held = ""
        if not rest and not self._started:
            raise RequestError("text is empty", param="text")
        return self._rows([*rest, self._eos])

    def _rows(self, ids: list[int]) -> Tensor:
        rows = self._talker.text_rows(torch.tensor(ids, dtype=torch.int64))
        if ids and not self._started:
            self._started = True
            rows[0] += self._talker.codec_rows(torch.tensor(self._bos))
        return rows
