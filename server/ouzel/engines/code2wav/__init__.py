"""Codec frames to sound."""

from __future__ import annotations

from ouzel.engines.code2wav.build import build
from ouzel.engines.code2wav.core import Code2WavCore, Decoder

__all__ = ["Code2WavCore", "Decoder", "build"]
