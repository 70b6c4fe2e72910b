"""Prompts: the rows that the talker reads before it speaks, and the text rows that follow while it speaks.

Every row is one sum of a text side and a codec side (`generate` of the official package):

    block         text side             codec side
    instruct      <|im_start|>user …    none; only where the checkpoint takes one
    role          <|im_start|>assistant none
    tags          tts_pad               think, think_bos, language, think_eos or nothink …, speaker
    tag end       tts_bos               codec_pad
    then, in the streaming layout,
    first token   text[0]               codec_bos; text[1:] and tts_eos follow, one for each frame
    or else
    text          text, tts_eos         codec_pad
    start         tts_pad               codec_bos

In-context cloning puts the reference's text before the text, and codec_bos and the reference's frames beside it
(streaming) or behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ouzel.errors import RequestError
from ouzel.models.qwen3_tts.config import Qwen3TTSConfig
from ouzel.models.qwen3_tts.predictor import CodePredictor
from ouzel.models.qwen3_tts.prompt_checks import check_spec, language_id
from ouzel.models.qwen3_tts.prompt_spec import PromptSpec, Reference
from ouzel.models.qwen3_tts.talker import Talker
from ouzel.models.qwen3_tts.text_feed import TextFeed
from ouzel.models.qwen3_tts.tokenizer import TextTokenizer

__all__ = ["Prompt", "PromptBuilder", "PromptSpec", "Reference", "TextFeed"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """Rows to prefill; then frame g's row gets trailing[g], or `pad` once those have run out."""

    rows: Tensor  # [P, H]
    trailing: Tensor  # [N, H]
    pad: Tensor  # [H]


class PromptBuilder:
    """Builds the prompts of one loaded checkpoint."""

    def __init__(
        self, talker: Talker, predictor: CodePredictor, tokenizer: TextTokenizer, config: Qwen3TTSConfig
    ) -> None:
        self._talker = talker
        self._predictor = predictor
        self._tokenizer = tokenizer
        self._config = config
        start, end, newline = config.text_ids.im_start, config.text_ids.im_end, tokenizer.encode("\n")
        self._role = [start, *tokenizer.encode("assistant\n")]
        self._user = ([start, *tokenizer.encode("user\n")], [end, *newline])

    def build(self, spec: PromptSpec) -> Prompt:
        """The prompt of a text that is known as a whole.

        Raises `RequestError` for an empty text, an unknown language or a voice that doesn't suit the checkpoint, and
        `NotFoundError` for an unknown speaker.
        """
        spoken = self._spoken(spec.text, "text")
        text, codec = self._opening(spec)
        ids = self._config.text_ids
        if spec.reference is not None:
            more, codec_more, rest = self._continued(spec.reference, spoken, streaming=spec.streaming_layout)
        elif spec.streaming_layout:
            more, codec_more, rest = spoken[:1], self._codec([self._bos]), [*spoken[1:], ids.tts_eos]
        else:
            more = [*spoken, ids.tts_eos, ids.tts_pad]
            codec_more, rest = self._codec([self._pad] * (len(spoken) + 1) + [self._bos]), []
        return Prompt(
            rows=self._sum([*text, *more], torch.cat((codec, codec_more))),
            trailing=self._text(rest),
            pad=self._text([ids.tts_pad])[0],
        )

    def open(self, spec: PromptSpec) -> tuple[Prompt, TextFeed]:
        """The streaming layout for a text that arrives in pieces; `spec.text` isn't read.

        The prompt ends before the first text row. That row is the first one that the feed gives, and is still to be
        prefilled; those after it are trailing rows. Raises as `build` does, and `RequestError` for a reference.
        """
        if spec.reference is not None:
            raise RequestError("ref_audio with ref_text needs the whole text at once", param="ref_audio")
        text, codec = self._opening(spec)
        ids = self._config.text_ids
        prompt = Prompt(rows=self._sum(text, codec), trailing=self._text([]), pad=self._text([ids.tts_pad])[0])
        return prompt, TextFeed(self._talker, self._tokenizer, self._config)

    def _opening(self, spec: PromptSpec) -> tuple[list[int], Tensor]:
        # Text ids of everything before the text, and the codec rows beside the last of them.
        check_spec(spec, self._config)
        codec, ids = self._config.talker.ids, self._config.text_ids
        language = language_id(spec, self._config)
        if language is None:
            tags = [codec.nothink, codec.think_bos, codec.think_eos]
        else:
            tags = [codec.think, codec.think_bos, language, codec.think_eos]
        rows = torch.cat((self._codec(tags), self._speaker(spec), self._codec([codec.pad])))
        return [*self._instruct(spec), *self._role, *[ids.tts_pad] * (len(rows) - 1), ids.tts_bos], rows

    def _instruct(self, spec: PromptSpec) -> list[int]:
        if not spec.instruct:
            return []
        opened, closed = self._user
        return [*opened, *self._tokenizer.encode_plain(spec.instruct.strip()), *closed]

    def _speaker(self, spec: PromptSpec) -> Tensor:
        # -> [1, H], or [0, H] for a voice that only the instruction describes
        if spec.speaker is not None:
            return self._codec([self._config.speakers[spec.speaker.lower()]])
        embedding = spec.speaker_embedding if spec.reference is None else spec.reference.embedding
        return self._codec([]) if embedding is None else embedding[None].to(self._codec([]))

    def _continued(
        self, reference: Reference, spoken: list[int], *, streaming: bool
    ) -> tuple[list[int], Tensor, list[int]]:
        ids = self._config.text_ids
        text = [*self._spoken(reference.text, "ref_text"), *spoken, ids.tts_eos]
        codec = torch.cat((self._codec([self._bos]), self._predictor.embed_sum(reference.codes, self._talker)))
        if streaming:
            beside = text[: len(codec)]
            return beside + [ids.tts_pad] * (len(codec) - len(beside)), codec, text[len(codec) :]
        return text + [ids.tts_pad] * len(codec), torch.cat((self._codec([self._pad] * len(text)), codec)), []

    def _spoken(self, text: str, param: str) -> list[int]:
        # Without the blanks around it: a leading line break would melt into the one that ends the role.
        ids = self._tokenizer.encode_plain(text.strip())
        if not ids:
            raise RequestError(f"{param} is empty", param=param)
        return ids

    @property
    def _bos(self) -> int:
        return self._config.talker.ids.bos

    @property
    def _pad(self) -> int:
        return self._config.talker.ids.pad

    def _text(self, ids: Sequence[int]) -> Tensor:
        return self._talker.text_rows(torch.tensor(ids, dtype=torch.int64))

    def _codec(self, ids: Sequence[int]) -> Tensor:
        return self._talker.codec_rows(torch.tensor(ids, dtype=torch.int64))

    def _sum(self, text: list[int], codec: Tensor) -> Tensor:
        rows, bare = self._text(text), len(text) - len(codec)
        return torch.cat((rows[:bare], rows[bare:] + codec))
