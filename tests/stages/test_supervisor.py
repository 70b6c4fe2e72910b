"""Real processes with fake cores: their start, death, restart and end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ouzel.config.schema import Code2WavConfig, DeployConfig, TalkerConfig
from ouzel.errors import CheckpointError, EngineError, NotReadyError, OuzelError
from ouzel.stages.chunk_records import unpack_samples
from ouzel.stages.core import FinishReason, SamplesChunk, TalkerRequest
from ouzel.stages.launch import Launch, Launched, launch_process, launch_thread
from ouzel.stages.messages import FromStage, Refused, Setup, Speak
from ouzel.stages.supervisor import StageState, Supervisor, SupervisorLimits
from ouzel.stages.topology import StageSpec, flatten, topology
from ouzel.transfer import RingReader

pytestmark = pytest.mark.usefixtures("fakes_on_path")

CONFIG = DeployConfig(
    talker=TalkerConfig(factory="fake_cores:talker"), code2wav=Code2WavConfig(factory="fake_cores:code2wav")
)
COLOCATED = replace(CONFIG, orchestrator=replace(CONFIG.orchestrator, placement="colocate"))
LIMITS = SupervisorLimits(
    init_deadline_s=20, silence_s=3, stop_grace_s=2, backoff_s=0.05, backoff_max_s=0.2, parallel=True
)


class Server:
    """The watcher of a supervisor, who notes what it is told."""

    def __init__(
        self,
        folder: Path,
        *,
        config: DeployConfig = CONFIG,
        limits: SupervisorLimits = LIMITS,
        launch: Launch = launch_process,
    ) -> None:
        self.messages: list[FromStage] = []
        self.downs: list[tuple[str, OuzelError, float]] = []
        self.reader: RingReader | None = None
        self._folder = folder
        self._config = config
        self.stages = Supervisor(topology(config, 2, range(2)), self._setup, self, limits, launch)
        self.first = topology(config, 2, range(2))[0].role

    def _setup(self, spec: StageSpec) -> Setup:
        return Setup(
            role=spec.role,
            folder=str(self._folder),
            settings=flatten(self._config),
            threads=spec.threads,
            nice=spec.nice,
            cpus=spec.cpus,
            step_stats=False,
            launched_ns=time.monotonic_ns(),
        )

    def heard(self, name: str, message: FromStage) -> None:
        self.messages.append(message)

    def went_down(self, name: str, error: OuzelError) -> None:
        self.downs.append((name, error, time.monotonic()))

    def output(self, reader: RingReader) -> None:
        if self.reader is not None:
            self.reader.close()
        self.reader = reader

    def speak(self, text: str, epoch: int, knobs: str = "") -> None:
        self.stages.send(self.first, Speak(utterance(text, epoch, knobs)))

    async def ending(self, epoch: int) -> SamplesChunk:
        """The last chunk of a stream."""

        def found() -> SamplesChunk | None:
            while self.reader is not None and (record := self.reader.get()):
                if (chunk := unpack_samples(record)).last and chunk.epoch == epoch:
                    return chunk
            return None

        return await until(found)

    def pid(self, name: str) -> int:
        pid = self.stages.status()[name].pid
        assert pid is not None
        return pid

    async def __aenter__(self) -> Server:
        await self.stages.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stages.stop()
        if self.reader is not None:
            self.reader.close()


def utterance(text: str, epoch: int, knobs: str = "") -> TalkerRequest:
    return TalkerRequest(slot=0, epoch=epoch, text=text, max_frames=200, granted_frames=200, instruct=knobs)


async def until(found: Callable[[], Any], within: float = 20.0) -> Any:
    deadline = time.monotonic() + within
    while not (answer := found()):
        assert time.monotonic() < deadline, "nothing came"
        await asyncio.sleep(0.005)
    return answer


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = set(os.listdir("/proc/self/fd")), set(os.listdir("/dev/shm"))
    yield
    assert (set(os.listdir("/proc/self/fd")), set(os.listdir("/dev/shm"))) == before


@pytest.mark.parametrize(
    ("config", "launch"), [(CONFIG, launch_process), (COLOCATED, launch_process), (COLOCATED, launch_thread)]
)
async def test_a_sentence_passes_through_the_stages(config: DeployConfig, launch: Launch, tmp_path: Path) -> None:
    async with Server(tmp_path, config=config, launch=launch) as server:
        server.stages.check_ready()
        server.speak("." * 9, 1)
        assert (await server.ending(1)).finish is FinishReason.STOP
        processes = {span.process for span in server.stages.spans}
        assert processes == set(server.stages.status())
        assert {"start process", "load fake talker", "load fake codec"} <= {span.name for span in server.stages.spans}


async def test_a_stage_that_dies_is_seen_within_a_second_and_started_again(tmp_path: Path) -> None:
    async with Server(tmp_path) as server:
        for name in ("talker", "code2wav"):
            died, pid = time.monotonic(), server.pid(name)
            os.kill(pid, signal.SIGKILL)
            await until(lambda: server.downs)
            found, error, at = server.downs.pop()
            assert found == name and isinstance(error, EngineError)
            assert at - died < 1
            with pytest.raises(NotReadyError, match=f"the {name} stage is"):
                server.stages.check_ready()
            await until(lambda name=name: server.stages.status()[name].state is StageState.READY)
            assert server.pid(name) != pid
            server.speak("." * 9, 10 * pid)
            assert (await server.ending(10 * pid)).finish is FinishReason.STOP
        assert {name: status.restarts for name, status in server.stages.status().items()} == {
            "talker": 1,
            "code2wav": 1,
        }


async def test_a_stage_that_is_stuck_is_killed_and_started_again(tmp_path: Path) -> None:
    async with Server(tmp_path, limits=replace(LIMITS, silence_s=1.5)) as server:
        server.speak("." * 9, 1, "hang=4")
        await until(lambda: server.downs)
        assert "has said nothing for" in str(server.downs[0][1])
        await until(lambda: server.stages.status()["talker"].state is StageState.READY)
        server.speak("." * 9, 2)
        await server.ending(2)


async def test_a_start_that_reports_no_progress_names_its_phase(tmp_path: Path) -> None:
    (tmp_path / "stuck").touch()
    server = Server(tmp_path, limits=replace(LIMITS, init_deadline_s=3))
    with pytest.raises(EngineError, match="talker stage made no progress for .* s in phase 'load fake talker'"):
        await server.stages.start()
    await server.__aexit__()


async def test_what_is_wrong_with_a_checkpoint_is_the_error_of_the_start(tmp_path: Path) -> None:
    (tmp_path / "torn").touch()
    server = Server(tmp_path)
    with pytest.raises(CheckpointError, match="safetensors is torn"):
        await server.stages.start()
    await server.__aexit__()


async def test_a_refused_request_is_heard(tmp_path: Path) -> None:
    async with Server(tmp_path) as server:
        server.speak("hello", 3, "refuse")
        refused = await until(lambda: next((m for m in server.messages if isinstance(m, Refused)), None))
        assert (refused.epoch, refused.fault.param) == (3, "instruct")


async def test_a_stage_that_does_not_stop_is_ended_after_the_grace(tmp_path: Path) -> None:
    server = Server(tmp_path, limits=replace(LIMITS, stop_grace_s=0.2))
    await server.stages.start()
    pids = [server.pid(name) for name in ("talker", "code2wav")]
    os.kill(pids[0], signal.SIGSTOP)
    await asyncio.wait_for(server.__aexit__(), 2)
    assert [pid for pid in pids if alive(pid)] == []


async def test_stopping_ends_the_pause_before_a_restart(tmp_path: Path) -> None:
    async with Server(tmp_path, limits=replace(LIMITS, backoff_s=600, backoff_max_s=600)) as server:
        os.kill(server.pid("talker"), signal.SIGKILL)
        await until(lambda: server.stages.status()["talker"].fault)


ALONE = """
import asyncio, sys
from pathlib import Path
from typing import Any
from test_supervisor import Server

async def main():
    async with Server(Path(sys.argv[1])) as server:
        server.speak("." * 200, 1, "pace=0.05")
        print(*(server.pid(name) for name in ("talker", "code2wav")), flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def test_killing_the_server_leaves_no_process(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(Path(__file__).parent)])}
    server = subprocess.Popen([sys.executable, "-c", ALONE, str(tmp_path)], stdout=subprocess.PIPE, env=environment)
    assert server.stdout is not None
    with server.stdout:
        pids = [int(word) for word in server.stdout.readline().split()]
    assert len(pids) == 2 and all(map(alive, pids))
    server.kill()
    server.wait()
    deadline = time.monotonic() + 2
    while any(map(alive, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that waits for its new parent doesn't."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def launches(setup: Setup) -> Launched:
    raise OSError("no more processes")


async def test_a_process_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no more processes"):
        await Server(tmp_path, launch=launches).stages.start()
