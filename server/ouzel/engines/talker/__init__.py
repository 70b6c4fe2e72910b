"""Text to codec frames."""

from __future__ import annotations

from ouzel.engines.talker.build import build
from ouzel.engines.talker.core import PrefillPolicy, TalkerCore

__all__ = ["PrefillPolicy", "TalkerCore", "build"]
