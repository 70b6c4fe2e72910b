"""What one message between two stages carries, whichever way it travels, and who may still read it."""

from __future__ import annotations

import select
import struct
from typing import NamedTuple, Protocol

from ouzel.errors import EngineError

__all__ = ["HEADER", "LAST", "Payload", "Record", "RecordReader", "RecordWriter", "StreamGuard"]

#: slot, epoch, sequence, flags (u32 each), time put (i64, ns of CLOCK_MONOTONIC, which all processes share), length.
HEADER = struct.Struct("<4IqI4x")

#: Flag of the record that ends its stream; its payload may be empty. Bits 1 to 15 are free for the two ends.
LAST = 1

Payload = bytes | bytearray | memoryview


class Record(NamedTuple):
    """One message. `payload` lives until the reader's next `get` or `release`: copy what must stay."""

    slot: int
    epoch: int
    sequence: int
    flags: int
    put_ns: int
    payload: memoryview

    @property
    def last(self) -> bool:
        return bool(self.flags & LAST)


class RecordWriter(Protocol):
    """The end that puts. One thread of one process holds it."""

    #: Longest payload in bytes; a longer one is an EngineError.
    max_payload: int

    def put(self, slot: int, epoch: int, sequence: int, payload: Payload, *, flags: int = 0) -> bool:
        """Copy one record in and wake the reader; False when there is no room (then `wait_space`).

        :raises EngineError: when the reader is gone, or the payload is longer than `max_payload`.
        """

    def wait_space(self, timeout_s: float, peer: int | None = None) -> bool:
        """Wait until the reader has made room (not necessarily enough: put again); False after `timeout_s`.

        :param peer: a socket to the reader's process; its hang-up ends the wait.
        :raises EngineError: when the reader is gone.
        """

    def close(self) -> None:
        """Tell the reader that nothing follows, and free this end; what was put can still be read."""


class RecordReader(Protocol):
    """The end that gets. One thread of one process holds it."""

    @property
    def ended(self) -> bool:
        """The writer is gone and everything that it put has been got."""

    def fileno(self) -> int:
        """A descriptor to poll for reading. It may stay silent until `get` has answered None: drain before polling."""

    def get(self) -> Record | None:
        """The next record, or None when there is none yet; gives back the room of the one before it."""

    def release(self) -> None:
        """Give back the room of the last record before the next `get`."""

    def wait_data(self, timeout_s: float, peer: int | None = None) -> bool:
        """Wait until there is something to get; False after `timeout_s` or when the writer is gone (see `ended`)."""

    def close(self) -> None:
        """Tell the writer that nobody reads, and free this end."""


class StreamGuard:
    """Whose record may still be read: the reader's table of slot → epoch, and the sequence expected next.

    A slot is used again and again, each time under another epoch; what the predecessor left in the ring is dropped.
    """

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[int, tuple[int, int]] = {}

    def open(self, slot: int, epoch: int) -> None:
        """From now on `slot` belongs to `epoch`, whose first record has sequence 0."""
        self._next[slot] = (epoch, 0)

    def close(self, slot: int, epoch: int) -> None:
        """Drop what still arrives for `epoch`; a successor in the same slot stays open."""
        if self._next.get(slot, (None, 0))[0] == epoch:
            del self._next[slot]

    def accepts(self, record: Record) -> bool:
        """Whether the record belongs to an open stream.

        :raises EngineError: when one of the stream's records is missing.
        """
        epoch, expected = self._next.get(record.slot, (None, 0))
        if record.epoch != epoch:
            return False
        if record.sequence != expected:
            raise EngineError(
                f"slot {record.slot} epoch {record.epoch}: record {record.sequence} arrived where {expected} was due"
            )
        self._next[record.slot] = (record.epoch, expected + 1)
        return True


def poll(descriptor: int, events: int, timeout_s: float, peer: int | None) -> tuple[bool, bool]:
    """Wait for `events`; answers (ready, hung up), where only `peer` and a socket `descriptor` can hang up."""
    poller = select.poll()
    poller.register(descriptor, events)
    if peer is not None:
        poller.register(peer, select.POLLRDHUP)
    hung_up = select.POLLHUP | select.POLLRDHUP | select.POLLERR
    answers = dict(poller.poll(max(0.0, timeout_s) * 1000))
    return bool(answers.get(descriptor, 0) & events), any(mask & hung_up for mask in answers.values())
