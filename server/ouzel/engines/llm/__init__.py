"""The language stage: vLLM's engine in a stage process. Importing this loads no vLLM."""

from __future__ import annotations

from ouzel.engines.llm.build import build

__all__ = ["build"]
