"""AsyncOmni as the gateway's speaker, and its language model as the gateway's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import cached_property
from typing import Self

from ouzel.errors import EngineError
from ouzel.gateway.speaker import End, Health, Sound, State, Utterance
from ouzel.models.qwen3_tts.tokenizer import TextTokenizer
from ouzel.orchestrator import AsyncOmni
from ouzel.orchestrator.language import Language, LanguageStatus
from ouzel.stages.language import LanguageRequest, TextDelta
from ouzel.stages.supervisor import StageState

__all__ = ["OmniLanguage", "OmniSpeaker"]

#: The supervisor ends a stage that is silent for one deadline; beyond two it stands still itself.
_DEADLINES = 2


class OmniSpeaker:
    """Loads the voice when entered, and leaves no stage when left."""

    def __init__(self, omni: AsyncOmni) -> None:
        self._omni = omni

    @property
    def model(self) -> str:
        return self._omni.voice.name

    @property
    def sample_rate(self) -> int:
        return self._omni.sample_rate

    @property
    def voices(self) -> Sequence[str]:
        default = self._omni.voice.default_speaker
        return sorted(self._omni.voice.speakers, key=lambda name: name != default)

    async def speak(self, utterance: Utterance) -> AsyncGenerator[Sound | End, None]:
        """As `Speaker.speak` says."""
        speech = self._omni.speak(
            utterance.text,
            speaker=utterance.speaker,
            language=utterance.language,
            instruct=utterance.instruct,
            seed=utterance.seed,
            max_frames=utterance.max_frames,
            chunk_frames=utterance.chunk_frames,
            streaming_layout=utterance.along and self._omni.voice.text_mode == "raw",
            whole_pieces=not (utterance.along or isinstance(utterance.text, str)),
        )
        async with speech:
            async for chunk in speech:
                yield Sound(
                    samples=chunk.samples, frames=chunk.frames, phases=chunk.phases, starved_ns=chunk.starved_ns
                )
        if speech.finish is None:
            raise EngineError("the utterance ended without saying how")
        yield End(reason=speech.finish, fault=speech.fault)

    def count_tokens(self, text: str) -> int:
        return len(self._tokenizer.encode_plain(text))

    def health(self) -> Health:
        now = self._omni.health()
        waits = [f"{name}: {one.phase}" for name, one in now.stages.items() if one.state is not StageState.READY]
        moving = all(one.silent_s < self._patience_s(one.state) for one in now.stages.values())
        return Health(State(now.state), ", ".join(waits), moving=moving, facts=now.to_json())

    def _patience_s(self, state: StageState) -> float:
        settings = self._omni.config.orchestrator
        if state is StageState.READY:
            return _DEADLINES * self._omni.config.limits.progress_deadline_s
        return _DEADLINES * settings.init_deadline_s + settings.restart_backoff_max_s

    async def __aenter__(self) -> Self:
        await self._omni.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._omni.__aexit__()

    @cached_property
    def _tokenizer(self) -> TextTokenizer:
        # Its vocabulary is tens of megabytes, which a server whose clients never ask for usage doesn't need.
        return TextTokenizer(self._omni.voice.folder)


class OmniLanguage:
    """Begins to load when its AsyncOmni is entered, and is nothing that a speaker waits for."""

    def __init__(self, language: Language) -> None:
        self._language = language

    async def generate(self, request: LanguageRequest, request_id: str) -> AsyncGenerator[TextDelta, None]:
        """As `LanguageModel.generate` says."""
        async with self._language.generate(request, request_id) as generation:
            async for delta in generation:
                yield delta

    def status(self) -> LanguageStatus:
        return self._language.status()
