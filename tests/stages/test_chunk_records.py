from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ouzel.errors import EngineError, RequestError
from ouzel.stages.chunk_records import pack, unpack_codes, unpack_samples
from ouzel.stages.core import CodesChunk, FinishReason, SamplesChunk
from ouzel.stats.phases import Phase
from ouzel.transfer import LAST, Record, Ring

phases = st.dictionaries(st.sampled_from(Phase), st.integers(0, 2**40))
finishes = st.none() | st.sampled_from(FinishReason)


def through_a_ring(chunk: CodesChunk | SamplesChunk) -> Record:
    ring = Ring.create(1 << 16)
    writer, reader = ring.writer(), ring.reader()
    ring.close()
    assert writer.put(chunk.slot, chunk.epoch, chunk.sequence, pack(chunk), flags=LAST if chunk.last else 0)
    record = reader.get()
    assert record is not None
    copy = record._replace(payload=memoryview(bytes(record.payload)))
    writer.close()
    reader.close()
    return copy


@settings(deadline=None)
@given(phases=phases, finish=finishes, frames=st.integers(0, 100), groups=st.integers(1, 16))
def test_codes_arrive_as_they_were(phases: dict[Phase, int], finish: FinishReason, frames: int, groups: int) -> None:
    codes = np.random.default_rng(frames).integers(0, 1 << 16, (frames, groups), np.uint16)
    fault = RequestError("no: ü", param="text") if finish is FinishReason.ERROR else None
    chunk = CodesChunk(
        slot=3,
        epoch=4,
        sequence=5,
        codes=codes,
        finish=finish,
        fault=fault,
        phases=phases,
        starved_ns=6,
        put_ns=7,
    )
    found = unpack_codes(through_a_ring(chunk))
    assert found.codes.shape == codes.shape and (found.codes == codes).all()
    assert (found.slot, found.epoch, found.sequence, found.finish) == (3, 4, 5, finish)
    assert (found.phases, found.starved_ns, found.put_ns) == (phases, 6, 7)
    assert repr(found.fault) == repr(fault) and (fault is None or found.fault.param == "text")


@settings(deadline=None)
@given(phases=phases, finish=finishes, frames=st.integers(0, 3))
def test_samples_arrive_as_they_were(phases: dict[Phase, int], finish: FinishReason, frames: int) -> None:
    samples = np.random.default_rng(frames).uniform(-1, 1, frames * 1920).astype(np.float32)
    chunk = SamplesChunk(slot=0, epoch=9, sequence=1, samples=samples, frames=frames, finish=finish, phases=phases)
    found = unpack_samples(through_a_ring(chunk))
    assert (found.samples == samples).all() and found.samples.flags.writeable
    assert (found.frames, found.finish, found.phases) == (frames, finish, phases)


def test_what_is_no_chunk_is_an_error() -> None:
    whole = pack(CodesChunk(slot=0, epoch=0, sequence=0, codes=np.zeros((2, 4), np.uint16)))
    for torn in (b"", whole[:10], whole[:-1], whole[:26] + b"\xff" + whole[27:]):
        with pytest.raises(EngineError, match="no chunk"):
            unpack_codes(Record(0, 0, 0, 0, 0, memoryview(torn)))
