"""Packages that vLLM asks for and text doesn't need."""

from __future__ import annotations

import sys

__all__ = ["hide_unused"]

# pip installs builds of the first three that don't match torch, and importing one of those fails half way. Triton has
# no backend for CPUs: vLLM would import it, find that out, and have it complain of leaks when the process ends.
UNUSED = ("torchaudio", "torchcodec", "torchvision", "triton")


def hide_unused() -> None:
    """Make them look absent, also to `importlib.util.find_spec`; call it before the first import of vLLM."""
    for name in UNUSED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # None is how Python marks a module as absent
