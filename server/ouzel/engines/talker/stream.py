"""One utterance on its way through the talker."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
import torch
from torch import Tensor

from ouzel.errors import OuzelError
from ouzel.models.qwen3_tts.kv_cache import KVCache
from ouzel.models.qwen3_tts.prompt import Prompt
from ouzel.models.qwen3_tts.sampler import Sampler
from ouzel.models.qwen3_tts.text_feed import TextFeed
from ouzel.scheduling import ChunkSchedule, Credits
from ouzel.stages.core import CodesChunk, FinishReason, TalkerRequest
from ouzel.stats.phases import Phase

__all__ = ["State", "Stream", "TextRows"]


class State(Enum):
    """Where a stream is; it only ever moves down this list."""

    WAITING = auto()  # for admission
    PREFILL = auto()  # admitted, its prompt isn't read yet
    DECODING = auto()  # frame by frame, or waiting for text or credits
    DONE = auto()  # its last chunk is the next thing to leave


class TextRows:
    """The text side of the rows behind the prompt: one for each frame, and padding once the text is over."""

    __slots__ = ("_feed", "_pad", "_rows")

    def __init__(self, prompt: Prompt, feed: TextFeed | None = None) -> None:
        """:param feed: where the text still arrives in pieces"""
        self._rows = deque(prompt.trailing.unbind())
        self._pad = prompt.pad
        self._feed = feed

    @property
    def ready(self) -> bool:
        """Whether the next row is certain."""
        return bool(self._rows) or self._feed is None

    def push(self, piece: str, *, last: bool) -> None:
        """Take more text; what comes after the last piece is dropped.

        :raises RequestError: when the text ends without a word.
        """
        if self._feed is None:
            return
        self._rows.extend(self._feed.push(piece).unbind())
        if last:
            self._rows.extend(self._feed.close().unbind())
            self._feed = None

    def pop(self) -> Tensor:
        # -> [H]
        return self._rows.popleft() if self._rows else self._pad


@dataclass(slots=True, eq=False)
class Stream:
    """What the core keeps of one request."""

    request: TalkerRequest
    rows: Tensor  # [R, H], of the prompt and still to be prefilled
    text: TextRows
    #: The prompt ends before the first text row, so nothing may be sampled from its last hidden state.
    open_ended: bool
    sampler: Sampler
    schedule: ChunkSchedule
    credits: Credits
    #: frames after which it ends with `length`; may fall, once the length of its text is known
    max_frames: int
    since_ns: int = 0  # when it was added; then when it was admitted
    state: State = State.WAITING
    cache: KVCache | None = None
    hidden: Tensor | None = None  # [H], still to be sampled from
    frame: Tensor | None = None  # [G], the last one made, which the backbone hasn't read
    unsent: list[Tensor] = field(default_factory=list)  # frames of [G]
    sent: int = 0
    sequence: int = 0
    finish: FinishReason | None = None
    fault: OuzelError | None = None
    heard_until: float | None = None
    phases: dict[Phase, int] = field(default_factory=dict)
    starved_ns: int = 0
    starving_since: int | None = None

    @property
    def most_tokens(self) -> int:
        """Positions of the KV cache that it can come to need, before its prompt is read."""
        return len(self.rows) + self.open_ended + self.request.max_frames

    @property
    def may_speak(self) -> bool:
        """Whether a frame can be made now."""
        ready = self.hidden is not None or self.text.ready
        return self.state is State.DECODING and ready and self.credits.available > 0

    @property
    def frames_to_chunk(self) -> int:
        """Frames until the next chunk is full."""
        return self.schedule.next_threshold(self.sent) - self.credits.made

    def admit(self, cache: KVCache, now: int) -> None:
        self.state, self.cache = State.PREFILL, cache
        self.phases[Phase.QUEUE] = now - self.since_ns
        self.since_ns = now

    def prefilled(self, hidden: Tensor) -> None:
        """The whole prompt is read."""
        self.state = State.DECODING
        self.hidden = None if self.open_ended else hidden

    def made(self, frame: Tensor) -> None:
        # frame: [G] int64
        self.frame, self.hidden = frame, None
        self.unsent.append(frame)
        self.credits.made += 1

    def end(self, reason: FinishReason, fault: OuzelError | None = None) -> None:
        """Nothing more is made; the KV cache is given back at once."""
        self.state, self.finish, self.fault = State.DONE, reason, fault
        self.cache = self.hidden = self.frame = None
        if reason is FinishReason.CANCELLED:
            self.unsent.clear()

    def watch_text(self, now: int) -> None:
        """Begin or end to count the time that it waits for text."""
        starving = self.state is State.DECODING and self.hidden is None and not self.text.ready
        if starving and self.starving_since is None:
            self.starving_since = now
        elif not starving and self.starving_since is not None:
            self.starved_ns += now - self.starving_since
            self.starving_since = None

    def spent(self, phases: dict[Phase, int]) -> None:
        for phase, ns in phases.items():
            self.phases[phase] = self.phases.get(phase, 0) + ns

    def chunk(self, groups: int, now: int) -> CodesChunk | None:
        """What leaves now, if anything does."""
        over = self.finish is not None
        size = self.schedule.due(self.sent, self.sent + len(self.unsent), finished=over)
        if not size and not over:
            return None
        codes = torch.stack(self.unsent).numpy().astype(np.uint16) if size else np.empty((0, groups), np.uint16)
        chunk = CodesChunk(
            slot=self.request.slot,
            epoch=self.request.epoch,
            sequence=self.sequence,
            codes=codes,
            finish=self.finish,
            fault=self.fault,
            phases=self.phases,
            starved_ns=self.starved_ns,
            put_ns=now,
        )
        self.unsent.clear()
        self.sent += size
        self.sequence += 1
        self.phases, self.starved_ns = {}, 0
        return chunk
