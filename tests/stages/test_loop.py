"""The loop in a thread, with the server's ends of its channel and rings in the test's hands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from fake_cores import FakeCode2Wav, FakeTalker

from ouzel.config.schema import DeployConfig
from ouzel.stages.channel import Channel
from ouzel.stages.chunk_records import pack, unpack_codes, unpack_samples
from ouzel.stages.colocate import SpeechCore
from ouzel.stages.core import CodesChunk, FinishReason, Grant, SamplesChunk, TalkerRequest
from ouzel.stages.loop import StageLoop
from ouzel.stages.messages import Abort, AskStats, Attach, Beat, Credit, Message, Refused, Speak, StatsReply, Stop
from ouzel.stats.steps import NULL, StepStats
from ouzel.transfer import Ring, RingReader, RingWriter


class Bench:
    """A loop that runs, and what the server holds of it."""

    def __init__(self, core: object, stats: StepStats | None = None) -> None:
        self.channel, theirs = Channel.pair()
        self._loop = StageLoop(core, theirs, [stats] if stats else [])  # type: ignore[arg-type]
        self._thread = threading.Thread(target=self._loop.run, daemon=True)
        self._thread.start()
        self._theirs = theirs

    def output(self, capacity: int = 1 << 18) -> RingReader:
        ring = Ring.create(capacity)
        self.channel.send(Attach("output"), ring.descriptors())
        reader = ring.reader()
        ring.close()
        return reader

    def input(self, capacity: int = 1 << 16) -> RingWriter:
        ring = Ring.create(capacity)
        self.channel.send(Attach("input"), ring.descriptors())
        writer = ring.writer()
        ring.close()
        return writer

    def next_message(self, kind: type[Message]) -> Message:
        def arrived() -> Message | None:
            received = self.channel.receive()
            return received.message if received and isinstance(received.message, kind) else None

        return until(arrived)

    def close(self) -> None:
        self.channel.send(Stop())
        self._thread.join(5)
        assert not self._thread.is_alive()
        self.channel.close()
        self._theirs.close()


def until(found: Callable[[], object], within: float = 5.0) -> object:
    deadline = time.monotonic() + within
    while (answer := found()) is None:
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.001)
    return answer


def records(reader: RingReader, read: Callable[..., CodesChunk | SamplesChunk]) -> Iterator[CodesChunk | SamplesChunk]:
    """Chunks until one ends its stream."""
    while True:
        chunk = until(lambda: (record := reader.get()) and read(record))
        assert isinstance(chunk, CodesChunk | SamplesChunk)
        yield chunk
        if chunk.last:
            return


@pytest.fixture
def talker() -> Iterator[Bench]:
    bench = Bench(FakeTalker(DeployConfig(), NULL))
    yield bench
    bench.close()


def request(text: str, epoch: int = 1, *, slot: int = 0, granted: int = 100, knobs: str = "") -> Speak:
    return Speak(
        TalkerRequest(slot=slot, epoch=epoch, text=text, max_frames=100, granted_frames=granted, instruct=knobs)
    )


def test_a_request_becomes_its_chunks(talker: Bench) -> None:
    reader = talker.output()
    talker.channel.send(request("." * 17))
    chunks = list(records(reader, unpack_codes))
    assert [len(chunk.codes) for chunk in chunks] == [2, 4, 8, 3]
    assert [chunk.sequence for chunk in chunks] == [0, 1, 2, 3]
    assert np.concatenate([chunk.codes[:, 0] for chunk in chunks]).tolist() == list(range(17))
    assert chunks[-1].finish is FinishReason.STOP
    reader.close()


def test_the_first_chunk_leaves_before_the_third_frame_is_made(talker: Bench) -> None:
    reader = talker.output()
    talker.channel.send(request("." * 3, knobs="pace=0.3"))
    first = next(records(reader, unpack_codes))
    assert first.frames == 2
    assert talker._loop._core._voices[0].credits.made == 2  # type: ignore[attr-defined]
    reader.close()


def test_a_refusal_is_an_answer(talker: Bench) -> None:
    talker.channel.send(request("hello", 7, knobs="refuse"))
    refused = talker.next_message(Refused)
    assert isinstance(refused, Refused)
    assert (refused.slot, refused.epoch, str(refused.fault.error())) == (0, 7, "the fake talker refuses")


def test_a_full_ring_holds_the_core_and_not_the_channel(talker: Bench) -> None:
    reader = talker.output(512)
    talker.channel.send(request("." * 80, 1))
    core = talker._loop._core
    until(lambda: talker._loop._blocked or None)
    made = core._voices[0].credits.made  # type: ignore[attr-defined]
    assert made < 80
    talker.channel.send(Abort(0, 1))
    until(lambda: None if core._voices else True)  # type: ignore[attr-defined]
    talker.channel.send(request("...", 2))
    chunks = [chunk for epoch in (1, 2) for chunk in records(reader, unpack_codes) if chunk.epoch == epoch]
    assert [chunk.finish for chunk in chunks if chunk.last] == [FinishReason.CANCELLED, FinishReason.STOP]
    reader.close()


def test_an_abort_of_another_epoch_changes_nothing(talker: Bench) -> None:
    reader = talker.output()
    talker.channel.send(request("." * 6, 5, granted=2))
    talker.channel.send(Abort(0, 4))
    talker.channel.send(Abort(3, 5))
    talker.channel.send(Credit(0, Grant(4, 50)))
    talker.channel.send(Credit(0, Grant(5, 6)))
    assert [chunk.finish for chunk in records(reader, unpack_codes)][-1] is FinishReason.STOP
    reader.close()


def test_a_slot_is_used_again_at_once(talker: Bench) -> None:
    reader = talker.output()
    talker.channel.send(request("." * 90, 1, granted=10))
    talker.channel.send(request("." * 2, 2))
    ends = [(chunk.epoch, chunk.finish) for _ in range(2) for chunk in records(reader, unpack_codes) if chunk.last]
    assert ends == [(1, FinishReason.CANCELLED), (2, FinishReason.STOP)]
    reader.close()


def test_a_new_ring_takes_over_and_what_went_to_nobody_is_dropped(talker: Bench) -> None:
    talker.channel.send(request("." * 90, 1))
    dead = talker.output()
    dead.close()
    talker.channel.send(Abort(0, 1))
    reader = talker.output()
    talker.channel.send(request("..", 2))
    # The end of the first may have gone to nobody, or come this way.
    found = next(chunk for chunk in iter(lambda: next(records(reader, unpack_codes)), None) if chunk.epoch == 2)
    assert found.finish is FinishReason.STOP
    reader.close()


def codes(epoch: int, sequence: int, frames: int, finish: FinishReason | None = None, slot: int = 0) -> CodesChunk:
    numbers = np.full((frames, 4), epoch, np.uint16)
    return CodesChunk(slot=slot, epoch=epoch, sequence=sequence, codes=numbers, finish=finish)


def put(writer: RingWriter, *chunks: CodesChunk) -> None:
    for chunk in chunks:
        assert writer.put(chunk.slot, chunk.epoch, chunk.sequence, pack(chunk))


def test_code2wav_opens_streams_by_their_first_chunk_and_drops_late_ones() -> None:
    bench = Bench(FakeCode2Wav(NULL))
    writer, reader = bench.input(), bench.output()
    bench.channel.send(Abort(1, 3))
    until(lambda: bench._loop._streams._newest.get(1))
    stop = FinishReason.STOP
    put(
        writer,
        codes(2, 1, 1),  # its beginning went to another incarnation
        codes(3, 0, 1, slot=1),  # aborted before it came
        codes(2, 0, 2),
        codes(4, 0, 1, stop, slot=1),
        codes(2, 1, 1, stop),
        codes(1, 0, 5, stop),  # an epoch that was over before
    )
    found = [chunk for _ in range(2) for chunk in records(reader, unpack_samples)]
    put(writer, codes(5, 0, 1, stop))
    found += records(reader, unpack_samples)
    assert [(chunk.slot, chunk.epoch, chunk.frames) for chunk in found] == [(0, 2, 2), (1, 4, 1), (0, 2, 1), (0, 5, 1)]
    for end in (writer, reader):
        end.close()
    bench.close()


def test_colocated_cores_speak_without_a_ring_between_them() -> None:
    bench = Bench(SpeechCore(FakeTalker(DeployConfig(), NULL), FakeCode2Wav(NULL)))
    reader = bench.output(1 << 20)
    bench.channel.send(request("." * 9, 1))
    chunks = list(records(reader, unpack_samples))
    assert [chunk.frames for chunk in chunks] == [2, 4, 3]
    assert np.concatenate([chunk.samples[::1920] for chunk in chunks]).tolist() == [n / 65536 for n in range(9)]
    bench.channel.send(request("." * 90, 2, granted=3))
    bench.channel.send(Abort(0, 2))
    bench.channel.send(request("..", 3))
    ends = {chunk.epoch: chunk.finish for _ in range(2) for chunk in records(reader, unpack_samples) if chunk.last}
    assert ends == {2: FinishReason.CANCELLED, 3: FinishReason.STOP}
    reader.close()
    bench.close()


def test_statistics_are_answered_and_an_idle_loop_beats() -> None:
    stats = StepStats("talker")
    bench = Bench(FakeTalker(DeployConfig(), stats), stats)
    reader = bench.output()
    bench.channel.send(request("." * 5))
    list(records(reader, unpack_codes))
    bench.channel.send(AskStats())
    reply = bench.next_message(StatsReply)
    assert isinstance(reply, StatsReply)
    assert reply.snapshots[0]["frames"] == 5
    beat = bench.next_message(Beat)
    assert isinstance(beat, Beat) and beat.steps == bench._loop._steps
    reader.close()
    bench.close()


def test_the_loop_ends_with_its_server(tmp_path: Path) -> None:
    ours, theirs = Channel.pair()
    thread = threading.Thread(target=StageLoop(FakeTalker(DeployConfig(), NULL), theirs).run, daemon=True)  # type: ignore[arg-type]
    thread.start()
    ours.close()
    thread.join(5)
    assert not thread.is_alive()
    theirs.close()
