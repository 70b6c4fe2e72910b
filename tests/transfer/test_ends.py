"""What both ways promise alike."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ouzel
from ouzel.errors import EngineError
from ouzel.transfer import LAST, PacketPipe, PacketReader, Record, RecordReader, RecordWriter, Ring, StreamGuard

CAPACITY = 4096
MAX_PAYLOAD = CAPACITY // 2 - 32


@pytest.fixture(params=["ring", "seqpacket"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[RecordWriter, RecordReader]]:
    way = Ring.create(CAPACITY) if request.param == "ring" else PacketPipe.create(MAX_PAYLOAD)
    writer, reader = way.writer(), way.reader()
    way.close()
    yield writer, reader
    writer.close()
    reader.close()


def fill(writer: RecordWriter) -> int:
    count = 0
    while writer.put(0, 0, count, bytes(MAX_PAYLOAD)):
        count += 1
    return count


def test_a_record_arrives_as_it_was_put(ends: tuple[RecordWriter, RecordReader]) -> None:
    writer, reader = ends
    assert reader.get() is None
    assert writer.put(3, 7, 11, b"codes", flags=LAST)
    record = reader.get()
    assert record is not None
    assert record[:4] == (3, 7, 11, LAST)
    assert bytes(record.payload) == b"codes"
    assert record.last and record.put_ns > 0
    assert reader.get() is None and not reader.ended


def test_an_empty_payload_is_a_record(ends: tuple[RecordWriter, RecordReader]) -> None:
    writer, reader = ends
    assert writer.put(0, 0, 0, b"")
    record = reader.get()
    assert record is not None and record.payload.nbytes == 0


def test_a_typed_view_is_put_as_its_bytes(ends: tuple[RecordWriter, RecordReader]) -> None:
    writer, reader = ends
    assert writer.put(0, 0, 0, memoryview(b"\x01\x00\x02\x00").cast("h"))
    record = reader.get()
    assert record is not None and bytes(record.payload) == b"\x01\x00\x02\x00"


def test_a_longer_payload_than_allowed_is_an_error(ends: tuple[RecordWriter, RecordReader]) -> None:
    writer, _ = ends
    assert writer.max_payload == MAX_PAYLOAD
    with pytest.raises(EngineError, match=f"{MAX_PAYLOAD + 1} bytes, and this .* takes {MAX_PAYLOAD}"):
        writer.put(0, 0, 0, bytes(MAX_PAYLOAD + 1))


def test_a_packet_longer_than_the_readers_pipe_is_an_error() -> None:
    pipe = PacketPipe.create(1000)
    writer = pipe.writer()
    reader = PacketReader.attach([os.dup(pipe.descriptors()[1])], max_payload=100)
    writer.put(0, 0, 0, bytes(101))
    with pytest.raises(EngineError, match="a record longer than the 100 bytes of this pipe"):
        reader.get()
    for end in (writer, reader, pipe):
        end.close()


def test_a_full_way_refuses_until_the_reader_makes_room(ends: tuple[RecordWriter, RecordReader]) -> None:
    writer, reader = ends
    held = fill(writer)
    assert held >= 1
    assert not writer.wait_space(0)
    for sequence in range(held):
        record = reader.get()
        assert record is not None and record.sequence == sequence
    reader.release()
    assert writer.wait_space(0)
    assert writer.put(0, 0, held, bytes(MAX_PAYLOAD))


def test_waiting_for_data_ends_with_the_data(ends: tuple[RecordWriter, RecordReader]) -> None:
    writer, reader = ends
    assert not reader.wait_data(0)
    writer.put(0, 0, 0, b"x")
    assert reader.wait_data(0)
    assert reader.get() is not None
    assert not reader.wait_data(0)


def test_what_was_put_before_the_close_can_still_be_read(ends: tuple[RecordWriter, RecordReader]) -> None:
    writer, reader = ends
    writer.put(0, 0, 0, b"last words")
    writer.close()
    assert reader.wait_data(0) and not reader.ended
    record = reader.get()
    assert record is not None and bytes(record.payload) == b"last words"
    assert not reader.wait_data(10) and reader.ended
    assert reader.get() is None


def test_a_reader_that_closed_is_an_error_for_the_writer(ends: tuple[RecordWriter, RecordReader]) -> None:
    writer, reader = ends
    reader.close()
    with pytest.raises(EngineError, match="reader is gone"):
        writer.wait_space(10)
    with pytest.raises(EngineError, match="reader is gone"):
        writer.put(0, 0, 0, b"x")


def test_close_twice_is_harmless(ends: tuple[RecordWriter, RecordReader]) -> None:
    for end in ends:
        end.close()
        end.close()


def test_the_hang_up_of_the_readers_process_ends_the_wait_for_space(ends: tuple[RecordWriter, RecordReader]) -> None:
    writer, _ = ends
    fill(writer)
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        with pytest.raises(EngineError, match="reader is gone"):
            writer.wait_space(10, peer=ours.fileno())


def test_the_hang_up_of_the_writers_process_ends_the_wait_for_data(ends: tuple[RecordWriter, RecordReader]) -> None:
    writer, reader = ends
    ours, theirs = socket.socketpair()
    with ours:
        writer.put(0, 0, 0, b"x")
        theirs.close()
        assert reader.wait_data(10, peer=ours.fileno())
        assert reader.get() is not None
        assert not reader.wait_data(10, peer=ours.fileno())
        assert reader.ended


def test_a_predecessors_record_is_dropped_and_a_lost_one_noticed() -> None:
    def record(slot: int, epoch: int, sequence: int) -> Record:
        return Record(slot, epoch, sequence, 0, 0, memoryview(b""))

    guard = StreamGuard()
    assert not guard.accepts(record(0, 1, 0))
    guard.open(0, 1)
    assert guard.accepts(record(0, 1, 0))
    guard.open(0, 2)
    assert not guard.accepts(record(0, 1, 1))
    guard.close(0, 1)
    assert guard.accepts(record(0, 2, 0))
    with pytest.raises(EngineError, match="slot 0 epoch 2: record 2 arrived where 1 was due"):
        guard.accepts(record(0, 2, 2))
    guard.close(0, 2)
    assert not guard.accepts(record(0, 2, 1))


CHILD = """
import socket, sys
from ouzel.transfer import LAST, PacketWriter, RingWriter
control = socket.socket(fileno=int(sys.argv[2]))
fds = socket.recv_fds(control, 1, 3)[1]
writer = RingWriter.attach(fds) if sys.argv[1] == "ring" else PacketWriter.attach(fds, 96_000)
for sequence in range(200):
    payload = bytes([sequence]) * (sequence * 479)
    while not writer.put(1, 2, sequence, payload, flags=LAST * (sequence == 199)):
        writer.wait_space(10, peer=control.fileno())
control.recv(1)
"""


@pytest.mark.parametrize("way", ["ring", "seqpacket"])
def test_two_processes_and_the_death_of_one(way: str) -> None:
    pipe = Ring.create(256 * 1024) if way == "ring" else PacketPipe.create(96_000)
    reader = pipe.reader()
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, way, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env={"PYTHONPATH": str(Path(ouzel.__file__).parents[1])},
    )
    try:
        theirs.close()
        descriptors = pipe.descriptors()
        socket.send_fds(ours, [b"x"], list(descriptors if way == "ring" else descriptors[:1]))
        pipe.close()
        guard = StreamGuard()
        guard.open(1, 2)
        last = False
        while not last:
            assert reader.wait_data(30, peer=ours.fileno())
            while record := reader.get():
                assert guard.accepts(record)
                assert record.payload == bytes([record.sequence]) * (record.sequence * 479)
                last = record.last
        child.kill()
        assert not reader.wait_data(30, peer=ours.fileno())
        assert reader.ended
    finally:
        child.kill()
        child.wait()
        reader.close()
        ours.close()
