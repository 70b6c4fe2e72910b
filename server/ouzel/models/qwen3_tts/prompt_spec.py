"""What a prompt is made of."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["AUTO", "PromptSpec", "Reference"]

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Reference:
    """A recording to continue from (in-context cloning): what is said in it, its codes, its speaker."""

    text: str
    codes: Tensor  # [F, G] int64
    embedding: Tensor  # [H]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSpec:
    """What to say, and as whom: a `speaker` by name, a `speaker_embedding` [H], a `reference`, or `instruct` alone."""

    text: str
    language: str = AUTO
    speaker: str | None = None
    speaker_embedding: Tensor | None = None
    reference: Reference | None = None
    instruct: str | None = None
    streaming_layout: bool = False
