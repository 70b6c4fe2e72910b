"""One end of the control channel between server and stage: whole messages, descriptors beside them, never blocking.

A message is one packet; one that is longer than a packet may be (a long conversation) is several, each marked by its
first byte, which no message begins with.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ouzel.errors import EngineError
from ouzel.stages.messages import Message, decode, encode

__all__ = ["Channel", "Received"]

#: Longest packet. A text of 4,096 letters and a snapshot of all phases stay far below it.
LONGEST = 1 << 17
#: Longest message. A body of a MiB stays below it, escaped as it may be.
LONGEST_MESSAGE = 1 << 23
_PIECE, _LAST_PIECE = b"+", b"."
_MOST_DESCRIPTORS = 3


@dataclass(frozen=True, slots=True)
class Received:
    """A message, and the descriptors that came with it; they are the receiver's now."""

    message: Message
    descriptors: tuple[int, ...] = ()


class Channel:
    """An end of a SOCK_SEQPACKET pair. What the kernel has no room for waits here, in order, until `flush`."""

    __slots__ = ("_outbox", "_pieces", "_socket", "ended")

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        # Its own and the peer's queue: more than the messages that can be open at once.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LONGEST)
        self._socket = end
        self._outbox: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._pieces: list[bytes] = []
        #: The other end is gone.
        self.ended = False

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(ours), cls(theirs)

    @classmethod
    def attach(cls, descriptor: int) -> Channel:
        """The channel over an inherited descriptor, which it owns from now on."""
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def wants_room(self) -> bool:
        """Whether something waits for the socket to become writable."""
        return bool(self._outbox)

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send or queue a message; to a peer that is gone it is lost. The descriptors stay the caller's.

        :raises EngineError: when the message is longer than a channel takes.
        """
        data = encode(message)
        if len(data) > LONGEST_MESSAGE:
            name = type(message).__name__
            raise EngineError(f"a {name} message of {len(data)} bytes; a channel takes {LONGEST_MESSAGE}")
        *pieces, last = _packets(data)
        self._outbox.extend((piece, ()) for piece in pieces)
        self._outbox.append((last, tuple(os.dup(descriptor) for descriptor in descriptors)))
        self.flush()

    def flush(self) -> None:
        """Send what waits, as far as there is room."""
        while self._outbox and not self.ended:
            data, descriptors = self._outbox[0]
            try:
                socket.send_fds(self._socket, [data], descriptors, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                self.ended = True
                break
            self._sent()
        while self._outbox:
            self._sent()

    def receive(self) -> Received | None:
        """The next message, or None when there is none; `ended` says whether one can still come.

        :raises EngineError: when what came is no message of ours.
        """
        while True:
            try:
                data, descriptors, flags, _ = socket.recv_fds(self._socket, LONGEST, _MOST_DESCRIPTORS)
            except BlockingIOError:
                return None
            except ConnectionResetError:
                # Said once of a peer that left with messages unread; what it had sent before is still here to be read.
                continue
            if not data:
                self.ended = True
                return None
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise EngineError("a message on a control channel was cut off")
            if data[:1] == _PIECE:
                self._pieces.append(data[1:])
                continue
            if data[:1] == _LAST_PIECE:
                data = b"".join((*self._pieces, data[1:]))
                self._pieces.clear()
            return Received(decode(data), tuple(descriptors))

    def close(self) -> None:
        """The other end sees that nobody is here."""
        self.ended = True
        self.flush()
        self._socket.close()

    def _sent(self) -> None:
        for descriptor in self._outbox.popleft()[1]:
            os.close(descriptor)


def _packets(data: bytes) -> list[bytes]:
    if len(data) <= LONGEST:
        return [data]
    room = LONGEST - 1
    pieces = [data[start : start + room] for start in range(0, len(data), room)]
    return [*(_PIECE + piece for piece in pieces[:-1]), _LAST_PIECE + pieces[-1]]
