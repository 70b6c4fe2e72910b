"""What the orchestrator knows of a voice without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ouzel.config import DeployConfig, probe_device
from ouzel.errors import CheckpointError
from ouzel.models.qwen3_tts.config import load_config
from ouzel.scheduling import KvGeometry, derive_overrides
from ouzel.text.voice_text import TextMode
from ouzel.voices import find_voice

__all__ = ["VoiceFacts"]

#: of one value
_BYTES = {"float32": 4, "bfloat16": 2}
_STORED_BYTES = 2


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
    #: of the talker's KV cache
    layers: int
    kv_heads: int
    head_dim: int
    #: of all weight files, whose values have two bytes in the published layout
    stored_bytes: int

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
        extras, talker = config.extras, config.talker
        return cls(
            name=folder.name,
            folder=folder,
            sample_rate=config.codec.sample_rate,
            text_mode=cast("TextMode", extras.text) if extras else "raw",
            letters_per_second=extras.letters_per_second if extras else None,
            speakers=tuple(sorted(config.speakers)),
            default_speaker=extras.default_speaker if extras else None,
            languages=tuple(config.spoken_languages),
            layers=talker.num_hidden_layers,
            kv_heads=talker.num_key_value_heads,
            head_dim=talker.head_dim,
            stored_bytes=sum(file.stat().st_size for file in folder.rglob("*.safetensors")),
        )

    def kv_geometry(self, dtype: str) -> KvGeometry:
        """Of the talker's KV cache where it computes in `dtype`."""
        return KvGeometry(self.layers, self.kv_heads, self.head_dim, _BYTES[dtype])

    def derive(self, config: DeployConfig) -> dict[str, object]:
        """What this device decides where this voice is served (`load_config(derive=…)`)."""
        dtype = config.talker.dtype
        return derive_overrides(
            probe_device(),
            self.kv_geometry(dtype),
            weights_bytes=self.stored_bytes * _BYTES[dtype] // _STORED_BYTES,
            sequence_limit=config.talker.max_num_seqs,
            with_llm=config.llm.model is not None,
        ).settings()
