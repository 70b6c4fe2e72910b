"""A chunk of codes or samples as the payload of a ring's record, and back.

starved_ns, put_ns (i64 each), frames, rows (u32 each), columns (u16), finish, phases (u8 each), fault (u32, in bytes);
for each phase its place in `Phase` and its ns (u32, i64); the fault as JSON, filled up to four bytes; the data.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any, NamedTuple

import numpy as np

from ouzel.errors import EngineError, OuzelError
from ouzel.stages.core import CodesChunk, FinishReason, SamplesChunk
from ouzel.stages.messages import Fault
from ouzel.stats.phases import Phase
from ouzel.transfer import Record

__all__ = ["pack", "unpack_codes", "unpack_samples"]

_HEAD = struct.Struct("<2q2IH2BI")
_PHASE = struct.Struct("<Iq")
_PHASES = tuple(Phase)
_FINISHES = (None, *FinishReason)


class _About(NamedTuple):
    """What both kinds of chunk say beside their data."""

    starved_ns: int
    put_ns: int
    frames: int
    columns: int
    finish: FinishReason | None
    phases: Mapping[Phase, int]
    fault: OuzelError | None
    #: where the data begins
    start: int


def pack(chunk: CodesChunk | SamplesChunk) -> bytes:
    """The payload of a chunk's record."""
    if isinstance(chunk, CodesChunk):
        data, columns = chunk.codes.astype("<u2", copy=False), chunk.codes.shape[1]
    else:
        data, columns = chunk.samples.astype("<f4", copy=False), 1
    fault = b"" if chunk.fault is None else json.dumps(astuple(Fault.of(chunk.fault))).encode()
    fault += b" " * (-len(fault) % 4)
    head = _HEAD.pack(
        chunk.starved_ns,
        chunk.put_ns,
        chunk.frames,
        len(data),
        columns,
        _FINISHES.index(chunk.finish),
        len(chunk.phases),
        len(fault),
    )
    phases = b"".join(_PHASE.pack(_PHASES.index(phase), ns) for phase, ns in chunk.phases.items())
    return b"".join((head, phases, fault, data.tobytes()))


def unpack_codes(record: Record) -> CodesChunk:
    """:raises EngineError: when the record is no chunk of codes"""
    about = _about(record, value_bytes=2)
    codes = np.frombuffer(record.payload[about.start :], "<u2").reshape(about.frames, about.columns)
    return CodesChunk(codes=codes.astype(np.uint16), **_common(record, about))


def unpack_samples(record: Record) -> SamplesChunk:
    """:raises EngineError: when the record is no chunk of samples"""
    about = _about(record, value_bytes=4)
    samples = np.frombuffer(record.payload[about.start :], "<f4").astype(np.float32)
    return SamplesChunk(samples=samples, frames=about.frames, **_common(record, about))


def _common(record: Record, about: _About) -> dict[str, Any]:
    return {
        "slot": record.slot,
        "epoch": record.epoch,
        "sequence": record.sequence,
        "finish": about.finish,
        "fault": about.fault,
        "phases": about.phases,
        "starved_ns": about.starved_ns,
        "put_ns": about.put_ns,
    }


def _about(record: Record, value_bytes: int) -> _About:
    try:
        starved_ns, put_ns, frames, rows, columns, finish, phases, fault_bytes = _HEAD.unpack_from(record.payload)
        fault_at = _HEAD.size + phases * _PHASE.size
        start = fault_at + fault_bytes
        spent = {_PHASES[place]: ns for place, ns in _PHASE.iter_unpack(record.payload[_HEAD.size : fault_at])}
        fault = Fault(*json.loads(bytes(record.payload[fault_at:start]))).error() if fault_bytes else None
        data_bytes = len(record.payload) - start
        if data_bytes != value_bytes * rows * columns:
            raise ValueError(f"{data_bytes} bytes of data where {rows} × {columns} values were announced")
        return _About(starved_ns, put_ns, frames, columns, _FINISHES[finish], spent, fault, start)
    except (struct.error, ValueError, IndexError, TypeError) as error:
        raise EngineError(f"a record of {len(record.payload)} bytes is no chunk: {error!r}") from error
