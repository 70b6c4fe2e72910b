"""A ring of records in anonymous shared memory: one writer, one reader, no names, no locks, no shared indices.

Three descriptors make a ring: a memfd with the records, and one eventfd each way. The eventfd's own counter says how
many bytes were published (data) or given back (space), so an end learns where the other one is only by reading its
eventfd. That system call is the fence that Python lacks and ARM needs, and nothing that a dying process leaves half
written is ever counted. Counts are multiples of `ALIGN`; the odd byte that `close` adds says that an end is gone.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import time
from collections.abc import Callable, Sequence

from ouzel.errors import ConfigError, EngineError
from ouzel.transfer.records import HEADER, Payload, Record, poll

__all__ = ["ALIGN", "Ring", "RingReader", "RingWriter"]

#: Records start on cache lines, so the two ends never write to the same one. A header always fits in what is left.
ALIGN = 64

#: A record that only fills the end of the memory, because the next one would not fit there in one piece.
_SKIP = 1 << 31


class Ring:
    """The three descriptors of a ring, before they are handed to its two ends."""

    __slots__ = ("_descriptors", "capacity")

    def __init__(self, descriptors: tuple[int, int, int], capacity: int) -> None:
        self._descriptors = descriptors
        self.capacity = capacity

    @classmethod
    def create(cls, capacity: int) -> Ring:
        """A ring of `capacity` bytes, all of them allocated now; a payload may have almost half of it.

        :raises ConfigError: when `capacity` is no multiple of 64 above 128, or the memory can't be had.
        """
        if capacity < 2 * ALIGN or capacity % ALIGN:
            raise ConfigError(f"a ring of {capacity} bytes: give a multiple of {ALIGN}, at least {2 * ALIGN}")
        memory = os.memfd_create("ouzel-ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(memory, 0, capacity)
        except OSError as error:
            os.close(memory)
            raise ConfigError(f"no memory for a ring of {capacity} bytes: {error.strerror}") from error
        # Sealed, no end can shrink the memory under the other one's feet (that would be SIGBUS).
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        data, space = (os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) for _ in range(2))
        return cls((memory, data, space), capacity)

    def descriptors(self) -> tuple[int, int, int]:
        """Memory, data, space: what `socket.send_fds` passes on. The ring still owns them."""
        return self._descriptors

    def writer(self) -> RingWriter:
        """The writing end for this process."""
        return RingWriter.attach([os.dup(fd) for fd in self._descriptors])

    def reader(self) -> RingReader:
        """The reading end for this process."""
        return RingReader.attach([os.dup(fd) for fd in self._descriptors])

    def close(self) -> None:
        """Close the descriptors, once both ends have theirs. The ends don't notice."""
        descriptors, self._descriptors = self._descriptors, (-1, -1, -1)
        for fd in descriptors:
            if fd >= 0:
                os.close(fd)


class _End:
    """What both ends share: the mapped memory, a position in it, and the two counters."""

    __slots__ = ("_capacity", "_data", "_memory", "_peer_gone", "_position", "_space", "max_payload")

    def __init__(self, descriptors: Sequence[int]) -> None:
        memory, self._data, self._space = descriptors
        self._capacity = os.fstat(memory).st_size
        mapped = mmap.mmap(memory, self._capacity, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        os.close(memory)
        self._memory = memoryview(mapped)
        self._position = 0
        self._peer_gone = False
        # Half, so that it fits wherever the writer stands: what it skips at the end is less than the record.
        self.max_payload = self._capacity // (2 * ALIGN) * ALIGN - HEADER.size

    def _close(self, tell: int) -> None:
        if self._data < 0:
            return
        os.eventfd_write(tell, 1)
        os.close(self._data)
        os.close(self._space)
        self._data = self._space = -1
        # Not unmapped by force: the pages go with the last view of a payload that somebody still holds.
        self._memory = memoryview(b"")

    def _counted(self, descriptor: int) -> int:
        """Bytes that the other end has counted since the last call; notes its farewell."""
        try:
            count = os.eventfd_read(descriptor)
        except BlockingIOError:
            return 0
        self._peer_gone |= bool(count % ALIGN)
        return count - count % ALIGN


class RingWriter(_End):
    """The writing end."""

    __slots__ = ("_clock", "_free", "_reserved", "_skip")

    def __init__(self, descriptors: Sequence[int], clock: Callable[[], int] = time.monotonic_ns) -> None:
        super().__init__(descriptors)
        self._clock = clock
        self._free = self._capacity
        self._skip = 0
        self._reserved: memoryview | None = None

    @classmethod
    def attach(cls, descriptors: Sequence[int], clock: Callable[[], int] = time.monotonic_ns) -> RingWriter:
        """The writing end over received descriptors, which it owns from now on."""
        return cls(descriptors, clock)

    def fileno(self) -> int:
        """The space eventfd, to poll for reading after a `put` that answered False; `put` reads it."""
        return self._space

    def put(self, slot: int, epoch: int, sequence: int, payload: Payload, *, flags: int = 0) -> bool:
        """Copy one record in and wake the reader; False when there is no room (then `wait_space`).

        :raises EngineError: when the reader is gone, or the payload is longer than `max_payload`.
        """
        put_ns = self._clock()
        source = memoryview(payload)
        target = self.reserve(source.nbytes)
        if target is None:
            return False
        if source.nbytes:
            target[:] = source.cast("B")
        self.commit(slot, epoch, sequence, flags=flags, put_ns=put_ns)
        return True

    def reserve(self, length: int) -> memoryview | None:
        """Room for a payload of `length` bytes, to be filled in place before `commit`; None when there is none.

        A second `reserve` replaces the first.

        :raises EngineError: when the reader is gone, or `length` is above `max_payload`.
        """
        if length > self.max_payload:
            raise EngineError(f"a record of {length} bytes, and this ring takes {self.max_payload}")
        self._free += self._counted(self._space)
        if self._peer_gone:
            raise EngineError("the ring's reader is gone")
        size, to_end = _room(length), self._capacity - self._position
        self._skip = to_end if to_end < size else 0
        if self._free < self._skip + size:
            return None
        start = (self._position + self._skip) % self._capacity + HEADER.size
        self._reserved = self._memory[start : start + length]
        return self._reserved

    def commit(self, slot: int, epoch: int, sequence: int, *, flags: int = 0, put_ns: int | None = None) -> None:
        """Publish the reserved room as one record and wake the reader.

        :raises EngineError: without a `reserve` before it.
        """
        if self._reserved is None:
            raise EngineError("commit without reserve")
        length = self._reserved.nbytes
        self._reserved.release()
        self._reserved = None
        put_ns = self._clock() if put_ns is None else put_ns
        if self._skip:
            HEADER.pack_into(self._memory, self._position, 0, 0, 0, _SKIP, put_ns, self._skip - HEADER.size)
            self._position = 0
        size = _room(length)
        HEADER.pack_into(self._memory, self._position, slot, epoch, sequence, flags, put_ns, length)
        self._position = (self._position + size) % self._capacity
        self._free -= self._skip + size
        os.eventfd_write(self._data, self._skip + size)

    def wait_space(self, timeout_s: float, peer: int | None = None) -> bool:
        """Wait until the reader has made room (not necessarily enough: put again); False after `timeout_s`.

        :param peer: a socket to the reader's process; its hang-up ends the wait.
        :raises EngineError: when the reader is gone.
        """
        ready, hung_up = poll(self._space, select.POLLIN, timeout_s, peer)
        self._free += self._counted(self._space)
        if self._peer_gone or (hung_up and not ready):
            self._peer_gone = True
            raise EngineError("the ring's reader is gone")
        return ready

    def close(self) -> None:
        """Tell the reader that nothing follows, and free this end; what was put can still be read."""
        self._reserved = None
        self._close(self._data)


class RingReader(_End):
    """The reading end."""

    __slots__ = ("_available", "_held", "_payload")

    def __init__(self, descriptors: Sequence[int]) -> None:
        super().__init__(descriptors)
        self._available = 0
        self._held = 0
        self._payload: memoryview | None = None

    @classmethod
    def attach(cls, descriptors: Sequence[int]) -> RingReader:
        """The reading end over received descriptors, which it owns from now on."""
        return cls(descriptors)

    @property
    def ended(self) -> bool:
        """The writer is gone and everything that it put has been got."""
        return self._peer_gone and not self._available

    def fileno(self) -> int:
        """The data eventfd. It stays silent until `get` has answered None: drain before polling."""
        return self._data

    def get(self) -> Record | None:
        """The next record, or None when there is none yet; gives back the room of the one before it.

        :raises EngineError: when a record reaches beyond what was published (a writer that isn't ours).
        """
        self.release()
        if not self._available:
            self._available = self._counted(self._data)
            if not self._available:
                return None
        header = HEADER.unpack_from(self._memory, self._position)
        if header[3] & _SKIP:
            self._pass(HEADER.size + header[5])
            header = HEADER.unpack_from(self._memory, self._position)
        slot, epoch, sequence, flags, put_ns, length = header
        start = self._position + HEADER.size
        self._pass(_room(length))
        self._payload = self._memory[start : start + length]
        return Record(slot, epoch, sequence, flags, put_ns, self._payload)

    def release(self) -> None:
        """Give back the room of the last record before the next `get`."""
        if not self._held:
            return
        if self._payload is not None:
            self._payload.release()
            self._payload = None
        held, self._held = self._held, 0
        os.eventfd_write(self._space, held)

    def wait_data(self, timeout_s: float, peer: int | None = None) -> bool:
        """Wait until there is something to get; False after `timeout_s` or when the writer is gone (see `ended`).

        :param peer: a socket to the writer's process; its hang-up ends the wait.
        """
        if self._available or self._peer_gone:
            return bool(self._available)
        ready, hung_up = poll(self._data, select.POLLIN, timeout_s, peer)
        self._available = self._counted(self._data) if ready or hung_up else 0
        self._peer_gone |= hung_up
        return bool(self._available)

    def close(self) -> None:
        """Tell the writer that nobody reads, and free this end."""
        self._payload = None
        self._close(self._space)

    def _pass(self, size: int) -> None:
        if size > self._available:
            raise EngineError(f"a record of {size} bytes where {self._available} were published")
        self._position = (self._position + size) % self._capacity
        self._available -= size
        self._held += size


def _room(length: int) -> int:
    return -(-(HEADER.size + length) // ALIGN) * ALIGN
