"""The same records through a SOCK_SEQPACKET pair: the arm that the ring has to beat (house decision 2)."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence

from ouzel.errors import EngineError
from ouzel.transfer.records import HEADER, Payload, Record, poll

__all__ = ["PacketPipe", "PacketReader", "PacketWriter"]


class PacketPipe:
    """The two descriptors of a pipe, before they are handed to its two ends."""

    __slots__ = ("_sockets", "max_payload")

    def __init__(self, sockets: tuple[socket.socket, socket.socket], max_payload: int) -> None:
        self._sockets = sockets
        self.max_payload = max_payload

    @classmethod
    def create(cls, max_payload: int) -> PacketPipe:
        """A pipe for payloads up to `max_payload` bytes; how many of them it holds is the kernel's choice."""
        reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * (HEADER.size + max_payload))
        return cls((writer, reader), max_payload)

    def descriptors(self) -> tuple[int, int]:
        """Writer, reader: each end is passed one of them. The pipe still owns them."""
        writer, reader = self._sockets
        return writer.fileno(), reader.fileno()

    def writer(self) -> PacketWriter:
        """The writing end for this process."""
        return PacketWriter(self._sockets[0].dup(), self.max_payload)

    def reader(self) -> PacketReader:
        """The reading end for this process."""
        return PacketReader(self._sockets[1].dup(), self.max_payload)

    def close(self) -> None:
        """Close the descriptors, once both ends have theirs."""
        for end in self._sockets:
            end.close()


class PacketWriter:
    """The writing end."""

    __slots__ = ("_clock", "_socket", "max_payload")

    def __init__(self, end: socket.socket, max_payload: int, clock: Callable[[], int] = time.monotonic_ns) -> None:
        end.setblocking(False)
        self._socket = end
        self._clock = clock
        self.max_payload = max_payload

    @classmethod
    def attach(cls, descriptors: Sequence[int], max_payload: int) -> PacketWriter:
        """The writing end over one received descriptor, which it owns from now on."""
        return cls(socket.socket(fileno=descriptors[0]), max_payload)

    def put(self, slot: int, epoch: int, sequence: int, payload: Payload, *, flags: int = 0) -> bool:
        """Send one record; False when there is no room (then `wait_space`).

        :raises EngineError: when the reader is gone, or the payload is longer than `max_payload`.
        """
        put_ns = self._clock()
        source = memoryview(payload)
        if source.nbytes > self.max_payload:
            raise EngineError(f"a record of {source.nbytes} bytes, and this pipe takes {self.max_payload}")
        header = HEADER.pack(slot, epoch, sequence, flags, put_ns, source.nbytes)
        try:
            self._socket.sendmsg([header, source], (), socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return False
        except (BrokenPipeError, ConnectionResetError) as error:
            raise EngineError("the pipe's reader is gone") from error
        return True

    def wait_space(self, timeout_s: float, peer: int | None = None) -> bool:
        """Wait until the reader has made room; False after `timeout_s`.

        :param peer: a socket to the reader's process; its hang-up ends the wait.
        :raises EngineError: when the reader is gone.
        """
        ready, hung_up = poll(self._socket.fileno(), select.POLLOUT, timeout_s, peer)
        if hung_up:
            raise EngineError("the pipe's reader is gone")
        return ready

    def close(self) -> None:
        """Tell the reader that nothing follows; what was put can still be read."""
        self._socket.close()


class PacketReader:
    """The reading end, with one buffer for the record in hand."""

    __slots__ = ("_buffer", "_socket", "ended")

    def __init__(self, end: socket.socket, max_payload: int) -> None:
        end.setblocking(False)
        self._socket = end
        self._buffer = memoryview(bytearray(HEADER.size + max_payload))
        self.ended = False

    @classmethod
    def attach(cls, descriptors: Sequence[int], max_payload: int) -> PacketReader:
        """The reading end over one received descriptor, which it owns from now on."""
        return cls(socket.socket(fileno=descriptors[0]), max_payload)

    def fileno(self) -> int:
        """The socket."""
        return self._socket.fileno()

    def get(self) -> Record | None:
        """The next record, or None when there is none yet; overwrites the one before it.

        :raises EngineError: when a record is longer than this pipe's `max_payload`.
        """
        try:
            received, _, status, _ = self._socket.recvmsg_into([self._buffer])
        except (BlockingIOError, ConnectionResetError) as error:
            self.ended |= isinstance(error, ConnectionResetError)
            return None
        if not received:
            self.ended = True
            return None
        if status & socket.MSG_TRUNC:
            raise EngineError(f"a record longer than the {len(self._buffer) - HEADER.size} bytes of this pipe")
        slot, epoch, sequence, flags, put_ns, length = HEADER.unpack_from(self._buffer)
        return Record(slot, epoch, sequence, flags, put_ns, self._buffer[HEADER.size : HEADER.size + length])

    def release(self) -> None:
        """Nothing to give back: the record in hand is a copy."""

    def wait_data(self, timeout_s: float, peer: int | None = None) -> bool:
        """Wait until there is something to get; False after `timeout_s` or when the writer is gone (see `ended`)."""
        ready, hung_up = poll(self._socket.fileno(), select.POLLIN, timeout_s, peer)
        if not hung_up:
            return ready
        try:
            self.ended = not self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, ConnectionResetError):
            self.ended = True
        return not self.ended

    def close(self) -> None:
        """Tell the writer that nobody reads."""
        self._socket.close()
