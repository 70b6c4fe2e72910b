"""What the orchestrator knows of a voice without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ouzel.errors import CheckpointError
from ouzel.models.qwen3_tts.config import load_config
from ouzel.text.voice_text import TextMode
from ouzel.voices import find_voice

__all__ = ["VoiceFacts"]


@dataclass(frozen=True, slots=True)
class VoiceFacts:
    """From config.json of a voice's folder."""

    name: str
    folder: Path
    sample_rate: int
    text_mode: TextMode
    #: None for the profile's
    letters_per_second: float | None
    speakers: tuple[str, ...]
    default_speaker: str | None
    languages: tuple[str, ...]

    @classmethod
    def of(cls, voice: str | Path) -> VoiceFacts:
        """A carried voice by its name, or a checkpoint folder.

        :raises NotFoundError: when it is neither.
        :raises CheckpointError: when its config is missing, torn, or speaks of no codec.
        """
        folder = find_voice(str(voice))
        config = load_config(folder)
        if config.codec is None:
            raise CheckpointError(f"{folder / 'speech_tokenizer'} is missing, expected config.json in it")
        extras = config.extras
        return cls(
            name=folder.name,
            folder=folder,
            sample_rate=config.codec.sample_rate,
            text_mode=cast("TextMode", extras.text) if extras else "raw",
            letters_per_second=extras.letters_per_second if extras else None,
            speakers=tuple(sorted(config.speakers)),
            default_speaker=extras.default_speaker if extras else None,
            languages=tuple(config.spoken_languages),
        )
