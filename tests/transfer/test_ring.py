from __future__ import annotations

import fcntl
import os
import select
from collections import deque
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.errors import ConfigError, EngineError
from ouzel.transfer import Ring, RingReader, RingWriter
from ouzel.transfer.ring import ALIGN


def both_ends(capacity: int) -> tuple[RingWriter, RingReader]:
    ring = Ring.create(capacity)
    writer, reader = ring.writer(), ring.reader()
    ring.close()
    return writer, reader


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@given(
    lines=st.integers(4, 24),
    moves=st.lists(st.one_of(st.integers(0, 700), st.sampled_from(["get", "get", "release"])), max_size=120),
)
def test_any_order_of_puts_and_gets_keeps_every_record(lines: int, moves: list[int | str]) -> None:
    writer, reader = both_ends(lines * ALIGN)
    expected: deque[tuple[int, bytes]] = deque()
    put = 0
    for move in moves:
        if isinstance(move, int):
            payload = bytes([put % 251]) * min(move, writer.max_payload)
            if writer.put(5, 6, put, payload):
                expected.append((put, payload))
                put += 1
            else:
                # Refused only when what is unread or held, with the skip that may be needed, leaves no room.
                assert expected or reader._held
        elif move == "release":
            reader.release()
        else:
            record = reader.get()
            assert (record is None) == (not expected)
            if record is not None:
                assert (record.sequence, bytes(record.payload)) == expected.popleft()
    while record := reader.get():
        assert (record.sequence, bytes(record.payload)) == expected.popleft()
    assert not expected
    assert writer.put(0, 0, 0, bytes(writer.max_payload)), "an empty ring takes the longest payload wherever it stands"
    writer.close()
    reader.close()


@given(sizes=st.lists(st.integers(0, 200), min_size=1, max_size=60), stall=st.integers(1, 9))
def test_a_slow_reader_loses_nothing(sizes: list[int], stall: int) -> None:
    writer, reader = both_ends(8 * ALIGN)
    got: list[bytes] = []
    for sequence, size in enumerate(sizes):
        payload = bytes([sequence]) * size
        while not writer.put(0, 0, sequence, payload):
            got.extend(bytes(record.payload) for record in islice(iter(reader.get, None), stall))
            reader.release()
    got.extend(bytes(record.payload) for record in iter(reader.get, None))
    assert got == [bytes([sequence]) * size for sequence, size in enumerate(sizes)]
    writer.close()
    reader.close()


def test_a_stalled_reader_holds_the_writer_and_nothing_is_overwritten() -> None:
    writer, reader = both_ends(4 * ALIGN)
    assert writer.put(0, 0, 0, b"a" * 90)
    first = reader.get()
    assert first is not None
    assert writer.put(0, 0, 1, b"b" * 90)
    for _ in range(3):
        assert not writer.put(0, 0, 2, b"c" * 90)
    assert bytes(first.payload) == b"a" * 90
    reader.release()
    assert writer.put(0, 0, 2, b"c" * 90)
    writer.close()
    reader.close()


def test_what_was_reserved_but_not_committed_is_never_seen() -> None:
    writer, reader = both_ends(1024)
    torn = writer.reserve(100)
    assert torn is not None
    torn[:50] = b"x" * 50
    assert not reader.wait_data(0) and reader.get() is None
    whole = writer.reserve(3)
    assert whole is not None
    whole[:] = b"abc"
    writer.commit(1, 2, 3)
    record = reader.get()
    assert record is not None and bytes(record.payload) == b"abc"
    with pytest.raises(EngineError, match="commit without reserve"):
        writer.commit(1, 2, 4)
    writer.close()
    reader.close()


def test_the_clock_of_the_writer_stamps_the_record() -> None:
    ring = Ring.create(1024)
    writer = RingWriter.attach([os.dup(fd) for fd in ring.descriptors()], clock=lambda: 123_456_789)
    reader = ring.reader()
    ring.close()
    writer.put(0, 0, 0, b"x")
    record = reader.get()
    assert record is not None and record.put_ns == 123_456_789
    writer.close()
    reader.close()


def test_a_payload_used_beyond_its_record_is_an_error() -> None:
    writer, reader = both_ends(1024)
    writer.put(0, 0, 0, b"x")
    record = reader.get()
    assert record is not None
    reader.release()
    with pytest.raises(ValueError, match="released memoryview"):
        bytes(record.payload)
    writer.close()
    reader.close()


def test_a_drained_ring_is_silent_in_a_poll() -> None:
    writer, reader = both_ends(1024)
    poller = select.poll()
    poller.register(reader, select.POLLIN)
    assert poller.poll(0) == []
    writer.put(0, 0, 0, b"x")
    writer.put(0, 0, 1, b"y")
    assert poller.poll(0)
    while reader.get():
        assert not reader.ended
    assert poller.poll(0) == []
    writer.close()
    assert poller.poll(0), "the farewell wakes the reader"
    reader.close()


@pytest.mark.parametrize("capacity", [0, ALIGN, 1000])
def test_an_impossible_capacity_is_a_config_error(capacity: int) -> None:
    with pytest.raises(ConfigError, match=f"a ring of {capacity} bytes: give a multiple of 64"):
        Ring.create(capacity)


def test_no_end_can_shrink_the_memory_and_it_has_no_name() -> None:
    before = set(Path("/dev/shm").iterdir())
    ring = Ring.create(1024)
    memory = ring.descriptors()[0]
    with pytest.raises(PermissionError):
        os.ftruncate(memory, 64)
    assert fcntl.fcntl(memory, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    assert set(Path("/dev/shm").iterdir()) == before
    ring.close()


def test_closing_gives_back_every_descriptor() -> None:
    before = open_descriptors()
    ring = Ring.create(1024)
    writer, reader = ring.writer(), ring.reader()
    writer.put(0, 0, 0, b"x")
    reader.get()
    assert len(open_descriptors()) > len(before)
    for end in (writer, reader, ring):
        end.close()
    assert open_descriptors() == before


def test_a_record_that_reaches_beyond_what_was_published_is_an_error() -> None:
    writer, reader = both_ends(1024)
    writer.put(0, 0, 0, b"x")
    writer._memory[24:28] = (900).to_bytes(4, "little")
    with pytest.raises(EngineError, match="a record of 960 bytes where 64 were published"):
        reader.get()
    writer.close()
    reader.close()
