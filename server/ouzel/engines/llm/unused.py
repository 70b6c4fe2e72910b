"""Packages that vLLM asks for and text doesn't need."""

from __future__ import annotations

import sys

__all__ = ["hide_unused"]

# pip installs builds of them that don't match torch, and importing one of those fails half way.
UNUSED = ("torchaudio", "torchcodec", "torchvision")


def hide_unused() -> None:
    """Make them look absent, also to `importlib.util.find_spec`; call it before the first import of vLLM."""
    for name in UNUSED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None is how Python marks a module as absent
