"""The one list of phase names, for tables, wire and metrics."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["FRAME_NS", "Phase"]

#: A codec frame lasts 80 ms: whatever takes longer to make is heard as a gap.
FRAME_NS = 80_000_000


class Phase(StrEnum):
    """A part of the way from a sentence to sound, in the order of the journey; those of the language stage are last."""

    QUEUE = "queue"  # waiting for admission
    TEXT = "text"  # normalizing, segmenting, tokenizing
    SCHEDULE = "schedule"  # choosing what the step does
    PREFILL = "prefill"  # a piece of a prompt through the backbone
    BACKBONE = "backbone"  # one frame through the backbone
    SAMPLE = "sample"  # codebook 0 from its logits
    PREDICTOR = "predictor"  # the other codebooks
    HOP = "hop"  # a chunk of codes from talker to code2wav
    CODEC = "codec"  # codes to samples
    ENCODE = "encode"  # samples to the bytes of a format
    SEND = "send"  # bytes to the client or the file
    UPDATE = "update"  # bookkeeping after the model has run
    DISPATCH = "dispatch"  # routing between stages
    FORWARD = "forward"  # one token of each text: weights and sampling
    DETOKENIZE = "detokenize"  # tokens to text, up to a stop string
    EMIT = "emit"  # text to deltas: reasoning, tool calls, logprobs
    OTHER = "other"  # what the rest leaves of the step
