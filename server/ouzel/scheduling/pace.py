"""What a chunk schedule does to playback on a device of a given speed, and what a slower device is served with.

Time model, with f ms of talker and d ms of codec for each frame: chunk k, of n_k frames, up to frame T_k, is audible
from end_k = max(f·T_k, end_{k-1}) + d·n_k where the two work side by side, and from (f + d)·T_k where they take turns
(`colocated`). It is due when the audio before it, 80·T_{k-1} ms since end_0, has played.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from ouzel.scheduling.chunks import ChunkSchedule

__all__ = ["FRAME_MS", "Playback", "SchedulePlan", "fit_schedule", "gentler", "simulate", "stall_free_step_ms"]

FRAME_MS = 80.0

#: A schedule with more steps than this is no ramp any more; a larger first chunk is tried instead.
_MAX_RAMP = 24

#: Rounding of the arithmetic in ms.
_ROUNDING_MS = 1e-9


class Playback(NamedTuple):
    """What a listener hears who starts to play at the first chunk, or `start_delay_ms` after it."""

    #: From the first talker step to the first sample.
    first_audio_ms: float
    #: Silence before each chunk after the first; 0 where it came in time.
    gaps_ms: tuple[float, ...]

    @property
    def stall_ms(self) -> float:
        return sum(self.gaps_ms)


class SchedulePlan(NamedTuple):
    """What a device is served with, given its measured step times."""

    schedule: ChunkSchedule
    #: Wait between the first chunk and its playback, for the utterance length that was asked about.
    start_delay_ms: float
    first_audio_ms: float
    #: The talker step that the wanted schedule tolerates.
    tolerated_ms: float
    #: Why this differs from what was wanted; empty where it doesn't.
    reason: str


def stall_free_step_ms(schedule: ChunkSchedule, decode_ms: float = 0.0, *, colocated: bool = False) -> float:
    """The longest talker step (ms a frame) without a gap, however long the stream; 0 when the codec alone is too slow.

    :param decode_ms: codec time a frame.
    """
    if colocated:
        return max(0.0, stall_free_step_ms(schedule) - decode_ms)
    if decode_ms > FRAME_MS:
        return 0.0
    # The first chunk of the steady size bounds all later ones: from there on slack is won with each frame.
    ends = list(accumulate(schedule.sizes))
    first = ends[0]
    longest = FRAME_MS
    for size, before, end in zip(schedule.sizes[1:], ends, ends[1:], strict=False):
        # One bound from a codec that is never idle, one from a codec that waits for this chunk; no mix is tighter.
        if decode_ms * (end - first) > FRAME_MS * before:
            return 0.0
        longest = min(longest, (FRAME_MS * before - decode_ms * (size - first)) / (end - first))
    return max(0.0, longest)


def simulate(
    schedule: ChunkSchedule,
    step_ms: float,
    decode_ms: float,
    *,
    frames: int,
    prefill_ms: float = 0.0,
    start_delay_ms: float = 0.0,
    colocated: bool = False,
) -> Playback:
    """Play a stream of `frames` frames and note each gap."""
    made = 0
    end = prefill_ms
    first_audio = heard_until = 0.0
    gaps: list[float] = []
    for size in schedule.chunks(frames):
        made += size
        ready = end + step_ms * size if colocated else max(end, prefill_ms + step_ms * made)
        end = ready + decode_ms * size
        if made == size:
            first_audio = heard_until = end + start_delay_ms
        else:
            gaps.append(max(0.0, end - heard_until))
        heard_until = max(heard_until, end) + FRAME_MS * size
    return Playback(first_audio, tuple(gaps))


def gentler(
    schedule: ChunkSchedule, step_ms: float, decode_ms: float = 0.0, *, colocated: bool = False
) -> ChunkSchedule | None:
    """The schedule with the smallest first chunk, growing as fast as it may to the same steady size, without a gap.

    None when no schedule helps: the device makes a frame in more than 80 ms.
    """
    for first in range(schedule.sizes[0], schedule.steady + 1):
        sizes = tuple(_growth(first, schedule.steady, step_ms, decode_ms, colocated))
        if len(sizes) > _MAX_RAMP or sizes[-1] != schedule.steady:
            continue
        candidate = ChunkSchedule(sizes)
        if stall_free_step_ms(candidate, decode_ms, colocated=colocated) >= step_ms - _ROUNDING_MS:
            return candidate
    return None


def fit_schedule(
    wanted: ChunkSchedule,
    step_ms: float,
    decode_ms: float,
    *,
    frames: int,
    prefill_ms: float = 0.0,
    colocated: bool = False,
) -> SchedulePlan:
    """The wanted schedule where the device keeps up with it, else a gentler one, else a start delay.

    :param step_ms: measured talker time a frame; `decode_ms` the codec's.
    :param frames: length of the utterance that a start delay must cover; the delay grows with it.
    """
    tolerated = stall_free_step_ms(wanted, decode_ms, colocated=colocated)
    schedule, delay, reason = wanted, 0.0, ""
    if step_ms > tolerated + _ROUNDING_MS:
        slow = f"a talker step of {step_ms:.1f} ms is above the {tolerated:.1f} ms that {list(wanted.sizes)} tolerates"
        if found := gentler(wanted, step_ms, decode_ms, colocated=colocated):
            schedule, reason = found, f"{slow}: chunks of {list(found.sizes)} instead"
        else:
            delay = _start_delay_ms(wanted, step_ms, decode_ms, frames, colocated)
            reason = f"{slow}, and no schedule helps: playback of {frames} frames starts {delay:.0f} ms later"
    playback = simulate(
        schedule,
        step_ms,
        decode_ms,
        frames=frames,
        prefill_ms=prefill_ms,
        start_delay_ms=delay,
        colocated=colocated,
    )
    return SchedulePlan(schedule, delay, playback.first_audio_ms, tolerated, reason)


def _growth(first: int, steady: int, step_ms: float, decode_ms: float, colocated: bool) -> Iterator[int]:
    # Largest n with f·(T + n - first) + d·(n - first) <= 80·T, and d·(T + n - first) where the two take turns.
    size = made = first
    yield size
    for _ in range(_MAX_RAMP):
        if size == steady:
            return
        room = FRAME_MS * made - step_ms * (made - first) + decode_ms * first - (decode_ms * made if colocated else 0.0)
        size = min(steady, int(room / (step_ms + decode_ms))) if room > 0 else 0
        if size < first:
            return
        made += size
        yield size


def _start_delay_ms(schedule: ChunkSchedule, step_ms: float, decode_ms: float, frames: int, colocated: bool) -> float:
    # Without a delay every wait is a gap, so the gaps add up to the delay that hides them all.
    return simulate(schedule, step_ms, decode_ms, frames=frames, colocated=colocated).stall_ms
