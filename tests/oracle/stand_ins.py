"""Stand-ins that let the official package be imported without what only its 25 Hz tokenizer needs."""

from __future__ import annotations

import sys
import types

_ABSENT = ("sox", "onnxruntime", "torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi")


def install() -> None:
    """Put empty modules in place of sox, onnxruntime and torchaudio; call it before importing `qwen_tts`."""
    # transformers asks importlib for the spec of what is installed, so it must have looked around before we lie to it.
    from transformers import AutoModel  # noqa: F401

    for name in _ABSENT:
        module = types.ModuleType(name)
        module.__spec__ = None
        sys.modules.setdefault(name, module)
