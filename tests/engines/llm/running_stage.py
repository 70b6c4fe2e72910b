"""A language stage in its process, and one end of its channel in the test's hands."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ouzel.config.schema import DeployConfig, LlmConfig
from ouzel.errors import OuzelError
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, LanguageSampling, TextDelta, TokenLogprob, Usage
from ouzel.stages.launch import launch_process
from ouzel.stages.messages import (
    Abort,
    Beat,
    Failed,
    FromStage,
    Generate,
    Generated,
    Ready,
    Refused,
    Setup,
    StageRole,
    Stop,
)
from ouzel.stages.topology import flatten
from ouzel.stats.timeline import Span

#: small enough that a few requests fill it: 32 blocks of 128 tokens, each 256 bytes in bfloat16
SETTINGS = LlmConfig(eager=True, nice=0, kv_cache_bytes=32 * 128 * 256, prefill_tokens=64)
WITHIN_S = 150.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One choice, put together from its deltas."""

    content: str
    reasoning: str
    calls: dict[int, tuple[str, str]]  # index → name, arguments
    logprobs: tuple[TokenLogprob, ...]
    finish: FinishReason | None
    pieces: tuple[str, ...]


class RunningStage:
    """Starts when entered; `ask` waits for the end of the answer, `send` doesn't."""

    def __init__(self, folder: Path, python_path: Sequence[Path] = (), **settings: Any) -> None:
        self._config = DeployConfig(llm=replace(SETTINGS, **settings))
        self._folder = folder
        self._python_path = [str(path) for path in python_path]
        self._epochs = count(1)
        self._epoch = 0
        self.beats: list[Beat] = []
        self.spans: tuple[Span, ...] = ()

    def __enter__(self) -> Self:
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(self._python_path)
        try:
            setup = Setup(
                StageRole.LLM, str(self._folder), flatten(self._config), 1, 0, None, True, time.monotonic_ns()
            )
            self._live = launch_process(setup)
        finally:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before
        ready = self._until(lambda message: isinstance(message, Ready | Failed))
        if isinstance(ready, Failed):
            self.close()
            raise ready.fault.error()
        assert isinstance(ready, Ready) and ready.facts is not None
        self.facts, self.spans = ready.facts, ready.spans
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._live.kill()
        self._live.channel.close()
        self._live._process.wait()  # type: ignore[attr-defined]
        os.close(self._live._pidfd)  # type: ignore[attr-defined]

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self._live.channel.send(Stop())
        return int(self._live._process.wait(WITHIN_S))  # type: ignore[attr-defined]

    def send(self, request: LanguageRequest, slot: int = 0) -> int:
        """The epoch under which its deltas come."""
        epoch = next(self._epochs)
        self._live.channel.send(Generate(replace(request, slot=slot, epoch=epoch)))
        return epoch

    def abort(self, epoch: int, slot: int = 0) -> None:
        self._live.channel.send(Abort(slot, epoch))

    def deltas(self, *epochs: int) -> dict[int, list[TextDelta]]:
        """All deltas of these requests until the last of each.

        :raises OuzelError: when one is refused
        """
        found: dict[int, list[TextDelta]] = {epoch: [] for epoch in epochs}
        while not all(deltas and deltas[-1].last for deltas in found.values()):
            message = self._until(lambda one: isinstance(one, Generated | Refused))
            if isinstance(message, Refused) and message.epoch in found:
                raise message.fault.error()
            if isinstance(message, Generated) and message.delta.epoch in found:
                found[message.delta.epoch].append(message.delta)
        return found

    def first_delta(self, epoch: int) -> TextDelta:
        """The next one of this request."""
        while True:
            message = self._until(lambda one: isinstance(one, Generated))
            assert isinstance(message, Generated)
            if message.delta.epoch == epoch:
                return message.delta

    def ask_deltas(self, request: LanguageRequest) -> list[TextDelta]:
        epoch = self.send(request)
        return self.deltas(epoch)[epoch]

    def ask(self, words: str | None = None, *, sampling: LanguageSampling | None = None, **more: Any) -> Answer:
        """The answer to a prompt, or to `messages`."""
        return self.ask_all(words, sampling=sampling, **more)[0][0]

    def ask_all(
        self, words: str | None = None, *, sampling: LanguageSampling | None = None, **more: Any
    ) -> tuple[list[Answer], Usage]:
        """Each choice of an answer, and what it cost."""
        sampling = sampling or LanguageSampling(max_tokens=16, seed=1)
        deltas = self.ask_deltas(LanguageRequest(prompt=words, sampling=sampling, **more))
        assert [delta.sequence for delta in deltas] == list(range(len(deltas)))
        usage = deltas[-1].usage
        assert usage is not None and all(delta.usage is None for delta in deltas[:-1])
        return [put_together(deltas, index) for index in range(more.get("n", 1))], usage

    def counters(self) -> Mapping[str, int]:
        """What the next beat tells."""
        beat = self._until(lambda message: isinstance(message, Beat))
        assert isinstance(beat, Beat)
        return beat.counters

    def _until(self, wanted: Any) -> FromStage:
        poller = select.poll()
        poller.register(self._live.channel, select.POLLIN)
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            self._live.channel.flush()
            received = self._live.channel.receive()
            if received is None:
                assert not self._live.channel.ended, "the stage died"
                poller.poll(100)
            elif wanted(received.message):
                return received.message  # type: ignore[return-value]
        raise AssertionError("nothing came")


def put_together(deltas: Sequence[TextDelta], index: int = 0) -> Answer:
    ours = [delta for delta in deltas if delta.index == index]
    calls: dict[int, tuple[str, str]] = {}
    for call in (call for delta in ours for call in delta.tool_calls):
        assert (call.id is None) == (call.index in calls), "an id comes once"
        name, arguments = calls.get(call.index, (call.name or "", ""))
        calls[call.index] = name, arguments + call.arguments
    return Answer(
        content="".join(delta.content for delta in ours),
        reasoning="".join(delta.reasoning for delta in ours),
        calls=calls,
        logprobs=tuple(one for delta in ours for one in delta.logprobs),
        finish=ours[-1].finish,
        pieces=tuple(delta.content for delta in ours),
    )


def refusal(stage: RunningStage, words: str | None = None, **more: Any) -> OuzelError:
    """What a stage has against a request."""
    try:
        stage.ask(words, **more)
    except OuzelError as error:
        return error
    raise AssertionError("it was served")
