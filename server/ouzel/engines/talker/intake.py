"""From a request to a stream: prompt, sampler and schedule, or the reason why it can't be served."""

from __future__ import annotations

from ouzel.engines.talker.stream import Stream, TextRows
from ouzel.models.qwen3_tts.checkpoint import TalkerSide
from ouzel.models.qwen3_tts.config import Qwen3TTSConfig
from ouzel.models.qwen3_tts.prompt import PromptSpec
from ouzel.models.qwen3_tts.prompt_spec import AUTO
from ouzel.models.qwen3_tts.sampler import Sampler, SamplingParams
from ouzel.scheduling import ChunkSchedule, Credits
from ouzel.stages.core import TalkerRequest

__all__ = ["Intake"]


class Intake:
    """Makes the streams of one checkpoint."""

    def __init__(self, side: TalkerSide, schedule: ChunkSchedule) -> None:
        """:param schedule: of requests that ask for no other"""
        self._config = side.config
        self._generation = side.generation
        self._prompts = side.prompts()
        self._schedule = schedule
        self._language, self._speaker = _own(side.config)

    def stream(self, request: TalkerRequest) -> Stream:
        """:raises RequestError: when text, voice, language, sampling or schedule don't suit the checkpoint"""
        sampling = SamplingParams.of(self._generation, **request.sampling.given())
        spec = self._spec(request)
        prompt, feed = (self._prompts.build(spec), None) if request.text is not None else self._prompts.open(spec)
        return Stream(
            request=request,
            rows=prompt.rows,
            text=TextRows(prompt, feed),
            open_ended=feed is not None,
            sampler=Sampler(sampling, self._config.talker),
            schedule=self._chunks(request),
            credits=Credits(request.granted_frames),
            max_frames=request.max_frames,
        )

    def _spec(self, request: TalkerRequest) -> PromptSpec:
        return PromptSpec(
            text=request.text or "",
            language=request.language or self._language,
            speaker=request.speaker or self._speaker,
            instruct=request.instruct,
            streaming_layout=request.streaming_layout,
        )

    def _chunks(self, request: TalkerRequest) -> ChunkSchedule:
        if request.chunk_frames is None:
            return self._schedule
        return ChunkSchedule.from_request(request.chunk_frames, "chunk_frames")


def _own(config: Qwen3TTSConfig) -> tuple[str, str | None]:
    """Language and speaker of a request that names none; the published checkpoints want their speaker named."""
    if config.extras is None:
        return AUTO, None
    languages = config.spoken_languages
    return languages[0] if len(languages) == 1 else AUTO, config.extras.default_speaker
