"""AsyncOmni with fake cores in real processes: the fake talker makes one frame a letter, numbered from 0."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ouzel.config.schema import LimitsConfig
from ouzel.errors import (
    BusyError,
    CheckpointError,
    ConfigError,
    EngineError,
    NotReadyError,
    RequestError,
    TextTooLongError,
)
from ouzel.orchestrator import AsyncOmni, AudioChunk, Omni, Speech
from ouzel.stages.core import FinishReason
from ouzel.stats.phases import Phase

Options = Callable[..., dict[str, Any]]


async def all_of(speech: Speech) -> list[AudioChunk]:
    return [chunk async for chunk in speech]


def frame_numbers(chunks: list[AudioChunk]) -> list[int]:
    assert all(len(chunk.samples) == 1920 * chunk.frames for chunk in chunks)
    return [round(float(sample) * 65536) for chunk in chunks for sample in chunk.samples[::1920]]


async def until(condition: Callable[[], object], within: float = 15.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it didn't happen"
        await asyncio.sleep(0.005)


PLACES = [{}, {"placement": "colocate"}, {"in_process": True}]


@pytest.mark.parametrize("place", PLACES)
async def test_a_text_is_spoken_in_sentences_and_every_frame_arrives(fakes: Options, place: dict[str, Any]) -> None:
    async with AsyncOmni(**fakes(**place)) as omni:
        speech = omni.speak("A first sentence. And a second one, which is longer.")
        chunks = await all_of(speech)
    assert speech.finish is FinishReason.STOP and speech.fault is None
    lengths = [len("A first sentence."), len("And a second one, which is longer.")]
    assert frame_numbers(chunks) == [*range(lengths[0]), *range(lengths[1])]
    assert speech.frames == sum(lengths)
    assert [chunk.sequence for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.frames for chunk in chunks if chunk.sentence == 0] == [2, 4, 8, 3]
    assert {chunk.sentence for chunk in chunks} == {0, 1}
    assert all(chunk.phases[Phase.HOP] > 0 and chunk.phases[Phase.CODEC] > 0 for chunk in chunks)


async def test_text_in_pieces_is_spoken_as_its_sentences_become_certain(fakes: Options) -> None:
    spoken = asyncio.Event()

    async def pieces() -> AsyncIterator[str]:
        for piece in ("It is 3", ".5 ", "now. ", "Really"):
            yield piece
        await spoken.wait()
        yield "!"

    async with AsyncOmni(**fakes()) as omni:
        speech = omni.speak(pieces())
        first = [await anext(speech)]
        while sum(chunk.frames for chunk in first) < len("It is 3.5 now."):
            first.append(await anext(speech))
        assert frame_numbers(first) == list(range(len("It is 3.5 now.")))
        spoken.set()
        rest = await all_of(speech)
    assert frame_numbers(rest) == list(range(len("Really!")))
    assert rest[0].starved_ns > 0, "the voice waited for its text"


async def test_in_the_streaming_layout_words_are_spoken_before_their_sentence_is_whole(fakes: Options) -> None:
    spoken = asyncio.Event()

    async def pieces() -> AsyncIterator[str]:
        yield "It is wo"
        yield "rd by "
        await spoken.wait()
        yield "word. A"
        yield "nd then."

    async with AsyncOmni(**fakes(LimitsConfig(progress_deadline_s=0.5))) as omni:
        speech = omni.speak(pieces(), streaming_layout=True, chunk_frames=[2])
        first = [await anext(speech) for _ in range(6)]
        assert sum(chunk.frames for chunk in first) == 12, "all that is certain but what fills no chunk"
        await asyncio.sleep(1)
        assert speech.finish is None, "who waits for words isn't stuck"
        spoken.set()
        rest = await all_of(speech)
    heard = frame_numbers([*first, *rest])
    assert heard == [*range(len("It is word by word. ")), *range(len("And then."))]
    assert {chunk.sentence for chunk in rest} == {0, 1} and speech.finish is FinishReason.STOP


async def test_whole_pieces_are_spoken_without_seeing_what_follows(fakes: Options) -> None:
    async def pieces() -> AsyncIterator[str]:
        yield "Hello there."
        await asyncio.Event().wait()

    async with AsyncOmni(**fakes()) as omni, omni.speak(pieces(), whole_pieces=True) as speech:
        assert (await asyncio.wait_for(anext(speech), 5)).frames == 2


@pytest.mark.parametrize(
    ("text", "wishes", "error"),
    [
        ("", {}, RequestError),
        (" \n", {}, RequestError),
        ("a" * 5000, {}, TextTooLongError),
        ("Hello.", {"chunk_frames": [4, 2]}, RequestError),
        ("Hello.", {"chunk_frames": [2, 60]}, RequestError),
        ("Hello.", {"chunk_frames": [1, 2]}, RequestError),
        ("Hello.", {"max_frames": 0}, RequestError),
    ],
)
async def test_what_is_wrong_with_a_request_is_said_at_once(
    fakes: Options, text: str, wishes: dict[str, Any], error: type[Exception]
) -> None:
    options = fakes(LimitsConfig(buffer_frames=50))
    options["config"] = replace(options["config"], talker=replace(options["config"].talker, chunk_min_frames=2))
    async with AsyncOmni(**options) as omni:
        with pytest.raises(error):
            omni.speak(text, **wishes)
        assert omni.health().open_requests == 0


async def test_what_only_the_stages_know_is_raised_by_the_iteration(fakes: Options) -> None:
    async with AsyncOmni(**fakes()) as omni:
        with pytest.raises(RequestError, match="the fake talker refuses"):
            await all_of(omni.speak("Hello.", instruct="refuse"))
        faulty = omni.speak("Hello, hello.", instruct="fault=7")
        heard = []
        with pytest.raises(EngineError, match="the fake talker fails"):
            async for chunk in faulty:
                heard.append(chunk)  # noqa: PERF401
        assert frame_numbers(heard) == list(range(7)), "what was made before is still heard"
        assert faulty.finish is FinishReason.ERROR
        assert omni.health().open_requests == 0


async def test_sources_that_fail_end_their_request(fakes: Options) -> None:
    async def failing() -> AsyncIterator[str]:
        yield "One sentence. And"
        raise ValueError("the line is dead")

    async def too_long() -> AsyncIterator[str]:
        while True:
            yield "and " * 100

    async def silent() -> AsyncIterator[str]:
        yield "  "

    async with AsyncOmni(**fakes()) as omni:
        for source, error in ((failing, EngineError), (too_long, TextTooLongError), (silent, RequestError)):
            with pytest.raises(error):
                await all_of(omni.speak(source()))
        assert omni.health().open_requests == 0


async def test_the_frame_limit_is_told_from_success(fakes: Options) -> None:
    async with AsyncOmni(**fakes()) as omni:
        speech = omni.speak("Hello there. Yes. And no.", max_frames=14)
        assert frame_numbers(await all_of(speech)) == [*range(12), *range(2)], "of the whole text"
        assert speech.finish is FinishReason.LENGTH
        exact = omni.speak("Hello there.", max_frames=12)
        assert len(frame_numbers(await all_of(exact))) == 12 and exact.finish is FinishReason.STOP


async def test_an_abort_ends_it_at_once_and_its_slot_is_free(fakes: Options) -> None:
    async with AsyncOmni(**fakes()) as omni:
        speech = omni.speak("." + "x" * 200, instruct="pace=0.01", request_id="mine")
        await anext(speech)
        assert omni.abort("mine") and not omni.abort("mine") and not omni.abort("nobody's")
        assert await all_of(speech) == [] and speech.finish is FinishReason.CANCELLED
        assert omni.health().open_requests == 0
        assert frame_numbers(await all_of(omni.speak("Next."))) == list(range(5)), "none of it leaks into its successor"


async def test_an_abort_drops_what_was_made_and_not_yet_taken(fakes: Options) -> None:
    async with AsyncOmni(**fakes()) as omni:
        speech = omni.speak("x" * 20, request_id="mine")
        await until(lambda: omni.health().open_requests == 0)
        assert speech.finish is None, "its sound isn't taken yet"
        assert omni.abort("mine")
        assert speech.finish is FinishReason.CANCELLED and await all_of(speech) == []
        heard = omni.speak("x" * 20, request_id="mine")
        await all_of(heard)
        heard.abort()
        assert not omni.abort("mine") and heard.finish is FinishReason.STOP, "what has ended stays as it ended"


async def test_a_consumer_that_disappears_leaves_nothing(fakes: Options) -> None:
    async with AsyncOmni(**fakes()) as omni:
        async for _ in omni.speak("x" * 200, instruct="pace=0.01"):
            break
        gc.collect()
        await until(lambda: omni.health().open_requests == 0)

        async def listen() -> None:
            async with omni.speak("x" * 200, instruct="pace=0.01") as speech:
                await all_of(speech)

        listener = asyncio.create_task(listen())
        await until(lambda: omni.health().open_requests == 1)
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)
        assert omni.health().open_requests == 0


async def test_beyond_the_bound_it_is_busy_and_those_who_wait_have_their_turn(fakes: Options) -> None:
    async with AsyncOmni(**fakes(LimitsConfig(max_waiting=2))) as omni:
        open_ones = [omni.speak("x" * 20, instruct="pace=0.002") for _ in range(6)]
        with pytest.raises(BusyError, match="4 requests are running and 2 waiting"):
            omni.speak("One too many.")
        for heard in await asyncio.gather(*map(all_of, open_ones)):
            assert frame_numbers(heard) == list(range(20))
        await all_of(omni.speak("Now there is room."))


async def test_the_bound_counts_the_sequences_that_the_memory_holds(fakes: Options) -> None:
    options = fakes(LimitsConfig(max_waiting=1))
    one_sentence = 1024 * 2 * 64 * 4
    talker = replace(options["config"].talker, kv_cache_bytes=2 * one_sentence)
    options["config"] = replace(options["config"], talker=talker)
    async with AsyncOmni(**options) as omni:
        assert omni.health().most_requests == 3
        open_ones = [omni.speak("x" * 20) for _ in range(3)]
        with pytest.raises(BusyError, match="2 requests are running and 1 waiting"):
            omni.speak("One too many.")
        await asyncio.gather(*map(all_of, open_ones))
    with pytest.raises(ConfigError, match="holds no sequence"):
        AsyncOmni(**options | {"config": replace(options["config"], talker=replace(talker, kv_cache_bytes=9))})


async def test_a_slow_consumer_stops_its_own_stream_only_and_is_not_cut_off(fakes: Options) -> None:
    limits = LimitsConfig(buffer_frames=30, progress_deadline_s=0.5)
    async with AsyncOmni(**fakes(limits)) as omni:
        slow = omni.speak("x" * 120)
        await anext(slow)
        await until(lambda: slow.frames >= 14)
        assert frame_numbers(await all_of(omni.speak("Quick."))) == list(range(6))
        await asyncio.sleep(1.2)
        held = slow.frames
        assert held <= 30 + 2, "no more than its buffer"
        assert len(frame_numbers(await all_of(slow))) == 118 and slow.finish is FinishReason.STOP


async def test_silence_ends_a_request_at_its_deadline(fakes: Options) -> None:
    async with AsyncOmni(**fakes(LimitsConfig(progress_deadline_s=1.0))) as omni:
        waiting = omni.speak(never())
        stuck = omni.speak("x" * 20, instruct="pace=0.1", chunk_frames=[15])
        with pytest.raises(EngineError, match="no progress for 1"):
            await all_of(stuck)
        assert waiting.finish is None, "who waits for its text isn't stuck"
        assert omni.health().state == "ready"


async def never() -> AsyncIterator[str]:
    await asyncio.Event().wait()
    yield ""


@pytest.mark.parametrize("victim", ["talker", "code2wav"])
async def test_a_stage_that_dies_fails_its_requests_and_comes_back(fakes: Options, victim: str) -> None:
    async with AsyncOmni(**fakes()) as omni:
        running = [omni.speak("x" * 200, instruct="pace=0.01") for _ in range(3)]
        for speech in running:
            await anext(speech)
        pid = omni.health().stages[victim].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        died = time.monotonic()
        answers = await asyncio.gather(*map(all_of, running), return_exceptions=True)
        assert time.monotonic() - died < 1
        assert all(isinstance(answer, EngineError) and victim in str(answer) for answer in answers)
        assert omni.health().state == "degraded"
        with pytest.raises(NotReadyError, match=victim):
            omni.speak("Too early.")
        await until(lambda: omni.health().ready)
        assert omni.health().stages[victim].restarts == 1
        assert frame_numbers(await all_of(omni.speak("Again."))) == list(range(6))


async def test_health_says_what_the_device_is_served_with(fakes: Options) -> None:
    omni = AsyncOmni(**fakes())
    assert omni.health().state == "stopped"
    with pytest.raises(NotReadyError):
        omni.speak("Too early.")
    async with omni:
        health = omni.health()
        assert health.ready and health.pace is not None and health.plan is not None
        assert health.pace.step_ms == pytest.approx(1.0) and health.pace.decode_ms == pytest.approx(0.1)
        assert 30 < health.plan.tolerated_ms <= 40 and health.plan.reason == ""
        described = health.to_json()
        assert described["chunk_frames"] == [2, 4, 8, 16, 25] and described["stages"]["talker"]["state"] == "ready"
        assert {span.process for span in omni.timeline()} == {"orchestrator", "talker", "code2wav"}
    assert omni.health().state == "stopped"


async def test_statistics_of_every_process(fakes: Options) -> None:
    async with AsyncOmni(**fakes(), step_stats=True) as omni:
        await all_of(omni.speak("Hello there."))
        snapshots = {snapshot.process: snapshot for snapshot in await omni.stats()}
    assert snapshots.keys() == {"talker", "code2wav", "orchestrator"}
    assert snapshots["talker"].frames == snapshots["code2wav"].frames == 12, "not those of the start"
    hops = snapshots["orchestrator"].beside[Phase.HOP]
    assert hops.count and snapshots["orchestrator"].beside[Phase.DISPATCH].count == hops.count


async def test_statistics_are_written_where_the_environment_says(
    fakes: Options, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OUZEL_STEP_STATS", str(tmp_path / "stats"))
    async with AsyncOmni(**fakes()) as omni:
        await all_of(omni.speak("Hello there."))
    found = sorted(path.name.split(".")[0] for path in (tmp_path / "stats").iterdir())
    assert found == ["code2wav", "orchestrator", "talker"]


async def test_without_statistics_there_are_none(fakes: Options) -> None:
    async with AsyncOmni(**fakes()) as omni:
        assert await omni.stats() == []


def test_omni_is_the_same_without_an_event_loop(fakes: Options) -> None:
    with Omni(**fakes()) as omni:
        with omni.speak("Hello there.") as speech:
            assert frame_numbers(list(speech)) == list(range(12))
        assert speech.finish is FinishReason.STOP
        with omni.speak("x" * 200, instruct="pace=0.01") as speech:
            next(speech)
        assert speech.finish is FinishReason.CANCELLED
        assert omni.health().ready and omni.stats() == []
    with pytest.raises(NotReadyError):
        omni.speak("Too late.")


async def test_a_start_that_fails_leaves_nothing(fakes: Options, tmp_path: Path) -> None:
    (tmp_path / "torn").touch()
    omni = AsyncOmni(**fakes())
    with pytest.raises(CheckpointError, match="is torn"):
        await omni.__aenter__()
    assert omni.health().state == "stopped"


def test_a_start_that_fails_ends_the_loop_of_omni_too(fakes: Options, tmp_path: Path) -> None:
    (tmp_path / "torn").touch()
    before = threading.active_count()
    with pytest.raises(CheckpointError, match="is torn"), Omni(**fakes()):
        raise AssertionError("it has no voice")
    assert threading.active_count() == before


def test_settings_that_exclude_each_other(fakes: Options) -> None:
    with pytest.raises(ConfigError, match="exclude"):
        AsyncOmni(**fakes(), deploy_profile="edge")


async def test_nothing_left_running_after_many_requests(fakes: Options) -> None:
    async with AsyncOmni(**fakes()) as omni:
        await all_of(omni.speak("Warm."))
        before = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
        for _ in range(20):
            await all_of(omni.speak("Hello there."))
            omni.speak("x" * 50).abort()
        assert (len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())) == before


def test_samples_are_the_callers_own(fakes: Options) -> None:
    with Omni(**fakes()) as omni, omni.speak("Hello there.") as speech:
        first = next(speech).samples
        copy = first.copy()
        list(speech)
        first += 0
        assert np.array_equal(first, copy)
