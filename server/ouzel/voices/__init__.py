"""Voices: checkpoint folders in the published Qwen3-TTS layout, those that the package carries and any other."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from ouzel.config.settings import describe_nearest
from ouzel.errors import NotFoundError

__all__ = ["DEFAULT_VOICE", "carried_voices", "find_voice"]

DEFAULT_VOICE = "joe"


def carried_voices() -> dict[str, Path]:
    """The folders of the voices inside the package, by name."""
    here = Path(str(resources.files("ouzel.voices")))
    return {folder.name: folder for folder in sorted(here.iterdir()) if (folder / "config.json").is_file()}


def find_voice(name: str) -> Path:
    """The folder of a carried voice, or `name` itself where it is a folder.

    :raises NotFoundError: when it is neither; names the nearest voice.
    """
    carried = carried_voices()
    if name in carried:
        return carried[name]
    if Path(name).is_dir():
        return Path(name)
    raise NotFoundError(
        f"voice {name!r} is neither a carried voice nor a folder; {describe_nearest(name, carried)}", param="voice"
    )
