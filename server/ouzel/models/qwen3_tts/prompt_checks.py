"""Whether a checkpoint can speak what a prompt asks for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ouzel.errors import NotFoundError, RequestError
from ouzel.models.qwen3_tts.config import Qwen3TTSConfig
from ouzel.models.qwen3_tts.prompt_spec import AUTO, PromptSpec

__all__ = ["check_spec", "language_id"]


def check_spec(spec: PromptSpec, config: Qwen3TTSConfig) -> None:
    """Raise `RequestError` or `NotFoundError` unless voice and instruction suit the checkpoint."""
    cloned = [part for part in (spec.speaker_embedding, spec.reference) if part is not None]
    if spec.speaker is not None and cloned:
        raise RequestError("voice is given beside a voice to clone, expected one of them", param="voice")
    if spec.speaker is not None and spec.speaker.lower() not in config.speakers:
        raise NotFoundError(_unknown("voice", spec.speaker, config.speakers), param="voice")
    if config.model_type == "base" and len(cloned) != 1:
        raise RequestError("this checkpoint clones: a speaker embedding or a reference is needed", param="ref_audio")
    if config.model_type != "base" and cloned:
        raise RequestError(f"a checkpoint of type {config.model_type} cannot clone a voice", param="ref_audio")
    if config.model_type == "custom_voice" and spec.speaker is None:
        raise RequestError(f"voice is missing, {_choice(config.speakers)}", param="voice")
    if spec.instruct and not config.takes_instruct:
        kind = f"{config.model_type} {config.model_size}"
        raise RequestError(f"a checkpoint of type {kind} takes no instructions", param="instructions")
    _check_shapes(spec, config)


def language_id(spec: PromptSpec, config: Qwen3TTSConfig) -> int | None:
    """The language's tag, None for auto; a speaker's dialect takes the place of Chinese and of auto.

    Raises `RequestError` for an unknown language.
    """
    language = spec.language.lower()
    if language != AUTO and language not in config.spoken_languages:
        names = [AUTO, *config.spoken_languages]
        raise RequestError(_unknown("language", spec.language, names), param="language")
    dialect = config.dialects.get(spec.speaker.lower()) if spec.speaker is not None else None
    if dialect is not None and language in ("chinese", AUTO):
        return config.languages[dialect]
    return config.languages.get(language)


def _check_shapes(spec: PromptSpec, config: Qwen3TTSConfig) -> None:
    width, groups = config.talker.hidden_size, config.talker.num_code_groups
    embedding = spec.speaker_embedding if spec.reference is None else spec.reference.embedding
    if embedding is not None and embedding.shape != (width,):
        found = list(embedding.shape)
        raise RequestError(f"speaker embedding has shape {found}, expected [{width}]", param="speaker_embedding")
    if spec.reference is not None:
        codes = spec.reference.codes
        if codes.ndim != 2 or codes.shape[1] != groups or not len(codes):
            found = list(codes.shape)
            raise RequestError(f"reference codes have shape {found}, expected [frames, {groups}]", param="ref_audio")


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return f"{what} {name!r} is unknown, {f'did you mean {near[0]!r}? ' if near else ''}{_choice(names)}"


def _choice(names: Iterable[str]) -> str:
    return f"this checkpoint has {', '.join(sorted(names)) or 'none'}"
