"""The way of audio between two stages: records through anonymous shared memory, or through a socket.

Both ways have the same two ends (`RecordWriter`, `RecordReader`), so that a stage doesn't know which one it was given
and the two can be measured against each other (`benchmarks/transfer/hop_bench.py`).
"""

from __future__ import annotations

from ouzel.transfer.records import LAST, Record, RecordReader, RecordWriter, StreamGuard
from ouzel.transfer.ring import Ring, RingReader, RingWriter
from ouzel.transfer.seqpacket import PacketPipe, PacketReader, PacketWriter

__all__ = [
    "LAST",
    "PacketPipe",
    "PacketReader",
    "PacketWriter",
    "Record",
    "RecordReader",
    "RecordWriter",
    "Ring",
    "RingReader",
    "RingWriter",
    "StreamGuard",
]
