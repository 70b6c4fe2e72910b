"""A language stage as a process: it has no ring, and its deltas leave over the channel."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ouzel.config.schema import DeployConfig, LlmConfig
from ouzel.errors import CheckpointError, EngineError, OuzelError
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, TextDelta
from ouzel.stages.launch import Launch, launch_process, launch_thread
from ouzel.stages.messages import Abort, Beat, FromStage, Generate, Generated, Refused, Setup
from ouzel.stages.supervisor import StageState, Supervisor, SupervisorLimits
from ouzel.stages.topology import StageSpec, flatten, language_stage
from ouzel.transfer import RingReader

pytestmark = pytest.mark.usefixtures("fakes_on_path")

CONFIG = DeployConfig(llm=LlmConfig(factory="fake_cores:llm", nice=0))
LIMITS = SupervisorLimits(init_deadline_s=20, silence_s=3, stop_grace_s=2, backoff_s=0.05, backoff_max_s=0.2)


class Server:
    """The watcher of a language stage's supervisor, who notes what it is told."""

    def __init__(self, folder: Path, launch: Launch = launch_process) -> None:
        self.messages: list[FromStage] = []
        self.downs: list[OuzelError] = []
        self._folder = folder
        self.stages = Supervisor([language_stage(CONFIG, 2, range(2))], self._setup, self, LIMITS, launch)

    def _setup(self, spec: StageSpec) -> Setup:
        settings = flatten(CONFIG)
        return Setup(
            spec.role, str(self._folder), settings, spec.threads, spec.nice, spec.cpus, True, time.monotonic_ns()
        )

    def heard(self, name: str, message: FromStage) -> None:
        self.messages.append(message)

    def went_down(self, name: str, error: OuzelError) -> None:
        self.downs.append(error)

    def output(self, reader: RingReader) -> None:
        raise AssertionError("a language stage has no ring")

    def ask(self, prompt: str, epoch: int, **knobs: float) -> None:
        self.stages.send("llm", Generate(LanguageRequest(epoch=epoch, prompt=prompt, template=knobs)))

    def deltas(self, epoch: int) -> list[TextDelta]:
        said = [message.delta for message in self.messages if isinstance(message, Generated)]
        return [delta for delta in said if delta.epoch == epoch]

    async def answer(self, epoch: int) -> list[TextDelta]:
        return await until(lambda: (found := self.deltas(epoch)) and found[-1].last and found)

    async def __aenter__(self) -> Server:
        await self.stages.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stages.stop()


async def until(found: Callable[[], Any], within: float = 20.0) -> Any:
    deadline = time.monotonic() + within
    while not (answer := found()):
        assert time.monotonic() < deadline, "nothing came"
        await asyncio.sleep(0.005)
    return answer


@pytest.mark.parametrize("launch", [launch_process, launch_thread])
async def test_a_prompt_becomes_deltas_in_order(launch: Launch, tmp_path: Path) -> None:
    async with Server(tmp_path, launch) as server:
        assert server.stages.facts is not None and server.stages.facts.model == "fake"
        assert {"start process", "load fake language model"} <= {span.name for span in server.stages.spans}
        server.ask("to be or not", 1)
        deltas = await server.answer(1)
        assert "".join(delta.content for delta in deltas) == "to be or not"
        assert [delta.sequence for delta in deltas] == [0, 1, 2, 3, 4]
        assert (deltas[-1].finish, deltas[-1].usage.completion_tokens) == (FinishReason.STOP, 4)


async def test_beats_tell_what_it_counts(tmp_path: Path) -> None:
    async with Server(tmp_path) as server:
        server.ask("word " * 1000, 1, pace=0.01)
        beat = await until(
            lambda: next((m for m in server.messages if isinstance(m, Beat) and m.counters["running"]), 0)
        )
        assert beat.counters == {"preemptions": 0, "kv_tokens": 400, "kv_reserved_tokens": 100, "running": 1}


async def test_refusal_fault_and_abort_end_one_request_each(tmp_path: Path) -> None:
    async with Server(tmp_path) as server:
        server.ask("hello", 1, refuse=1)
        refused = await until(lambda: next((m for m in server.messages if isinstance(m, Refused)), None))
        assert (refused.epoch, str(refused.fault.error())) == (1, "the fake language core refuses")
        server.ask("one two three", 2, fault=2)
        fault = (await server.answer(2))[-1].fault
        assert isinstance(fault, EngineError) and str(fault) == "the fake language core fails"
        server.ask("word " * 1000, 3, pace=0.01)
        await until(lambda: server.deltas(3))
        server.stages.send("llm", Abort(0, 3))
        assert (await server.answer(3))[-1].finish is FinishReason.CANCELLED
        server.ask("well", 4)
        assert (await server.answer(4))[-1].finish is FinishReason.STOP
        assert not server.downs


async def test_a_conversation_longer_than_a_packet_arrives(tmp_path: Path) -> None:
    async with Server(tmp_path) as server:
        long = "x" * (1 << 19)
        server.ask(f"a {long} b", 1)
        assert [delta.content.strip() for delta in await server.answer(1)] == ["a", long, "b", ""]


async def test_one_that_dies_is_started_again_and_says_so(tmp_path: Path) -> None:
    async with Server(tmp_path) as server:
        pid = server.stages.status()["llm"].pid
        server.ask("one two", 1, die=1)
        await until(lambda: server.downs)
        await until(lambda: server.stages.status()["llm"].state is StageState.READY)
        assert server.stages.status()["llm"].pid not in (None, pid)
        server.ask("again", 2)
        assert (await server.answer(2))[-1].finish is FinishReason.STOP


@pytest.mark.parametrize("launch", [launch_process, launch_thread])
@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [("torn", CheckpointError, "config.json is torn"), ("odd", EngineError, r"llm can't start: KeyError\('odd'\)")],
)
async def test_one_that_can_not_start_says_why(
    launch: Launch, fault: str, kind: type[OuzelError], words: str, tmp_path: Path
) -> None:
    (tmp_path / fault).touch()
    with pytest.raises(kind, match=words):
        await Server(tmp_path, launch).stages.start()


async def test_one_that_stops_beating_is_killed(tmp_path: Path) -> None:
    async with Server(tmp_path) as server:
        pid = server.stages.status()["llm"].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        error = await until(lambda: server.downs)
        assert "said nothing for" in str(error[0])
