"""From a request to a stream: prompt, sampler and schedule, or the reason why it can't be served."""

from __future__ import annotations

from ouzel.engines.talker.stream import Stream, TextRows
from ouzel.models.qwen3_tts.checkpoint import TalkerSide
from ouzel.models.qwen3_tts.prompt import PromptSpec
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
        )

    def _spec(self, request: TalkerRequest) -> PromptSpec:
        default = self._config.extras.default_speaker if self._config.extras else None
        return PromptSpec(
            text=request.text or "",
            language=request.language,
            speaker=request.speaker or default,
            instruct=request.instruct,
            streaming_layout=request.streaming_layout,
        )

    def _chunks(self, request: TalkerRequest) -> ChunkSchedule:
        if request.chunk_frames is None:
            return self._schedule
        return ChunkSchedule.from_request(request.chunk_frames, "chunk_frames")
