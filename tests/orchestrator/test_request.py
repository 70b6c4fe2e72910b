"""The request as a pure object: every interleaving of what can happen to it, in a world that is pure as well."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import combinations, count, product

import numpy as np
import pytest

from ouzel.config.schema import LimitsConfig
from ouzel.errors import EngineError, RequestError
from ouzel.orchestrator.request import Command, Deliver, End, Request, State, Wishes
from ouzel.stages.core import FinishReason, SamplesChunk, SamplingWishes
from ouzel.stages.messages import Abort, Credit, Speak, Text

LIMITS = LimitsConfig(buffer_frames=4)
DIED = EngineError("a stage died")


PLAIN = Wishes()


def new_request(wishes: Wishes = PLAIN) -> Request:
    return Request(7, wishes, LIMITS, 2, count(1).__next__)


def sound(epoch: int, sequence: int, frames: int, finish: FinishReason | None = None) -> SamplesChunk:
    samples = np.zeros(0, np.float32)
    return SamplesChunk(slot=7, epoch=epoch, sequence=sequence, samples=samples, frames=frames, finish=finish)


def names(commands: list[Command]) -> list[str]:
    return [type(command).__name__ for command in commands]


def test_sentences_follow_one_another_and_end_once() -> None:
    request = new_request()
    (first,) = request.text("One.")
    assert isinstance(first, Speak) and first.request.text == "One." and first.request.granted_frames == 4
    assert request.state is State.QUEUED
    assert request.text("Two.") == [] and request.text_over() == []
    assert names(request.chunk(sound(1, 0, 2))) == ["Deliver"]
    assert request.state is State.SPEAKING
    delivered, second = request.chunk(sound(1, 1, 1, FinishReason.STOP))
    assert isinstance(delivered, Deliver) and delivered.sentence == 0
    assert isinstance(second, Speak) and (second.request.text, second.request.epoch) == ("Two.", 2)
    assert second.request.granted_frames == 1, "three of the four frames that may be ahead are not taken yet"
    assert request.chunk(sound(2, 0, 0, FinishReason.STOP)) == [End(FinishReason.STOP)]


def test_text_that_pauses_leaves_the_request_waiting() -> None:
    request = new_request()
    request.text("One.")
    request.chunk(sound(1, 0, 0, FinishReason.STOP))
    assert request.state is State.WAITING
    assert names(request.text("Two.")) == ["Speak"]
    request.chunk(sound(2, 0, 0, FinishReason.STOP))
    assert request.text_over() == [End(FinishReason.STOP)]


def test_length_in_any_sentence_is_how_the_whole_ends() -> None:
    request = new_request()
    for text in ("One.", "Two."):
        request.text(text)
    request.text_over()
    request.chunk(sound(1, 0, 1, FinishReason.LENGTH))
    assert request.chunk(sound(2, 0, 0, FinishReason.STOP)) == [End(FinishReason.LENGTH)]


def test_a_frame_limit_is_that_of_the_whole_text() -> None:
    request = new_request(Wishes(max_frames=5))
    for text in ("One.", "Two.", "Three."):
        request.text(text)
    _, second = request.chunk(sound(1, 0, 3, FinishReason.STOP))
    assert isinstance(second, Speak) and second.request.max_frames == 2
    assert request.chunk(sound(2, 0, 2, FinishReason.LENGTH))[-1] == End(FinishReason.LENGTH), "nothing of the third"


def test_a_text_that_just_reaches_its_limit_is_whole() -> None:
    request = new_request(Wishes(max_frames=3))
    request.text("One.")
    request.chunk(sound(1, 0, 3, FinishReason.STOP))
    assert request.state is State.WAITING
    assert request.text_over() == [End(FinishReason.STOP)]


def test_a_limit_below_one_is_a_request_error() -> None:
    with pytest.raises(RequestError, match="max_frames 0: give at least 1"):
        Wishes(max_frames=0)


def test_words_follow_their_sentence_into_the_stages() -> None:
    request = new_request(Wishes(streaming_layout=True))
    speak, first = request.text("It ", whole=False)
    assert isinstance(speak, Speak) and speak.request.text is None and request.waits_for_text
    assert isinstance(first, Text) and (first.piece.text, first.piece.last) == ("It ", False)
    (last,) = request.text("is so. ")
    assert isinstance(last, Text) and (last.piece.text, last.piece.last) == ("is so. ", True)
    assert (last.piece.max_frames or 0) < speak.request.max_frames, "now its length is known"
    assert not request.waits_for_text
    assert request.text("Or ", whole=False) == request.text("not?") == [], "it waits for the one before"
    (second,) = request.chunk(sound(1, 0, 0, FinishReason.STOP))
    assert isinstance(second, Speak) and second.request.text == "Or not?", "whole by now"


def test_the_rest_of_a_sentence_whose_speech_has_ended_is_spoken() -> None:
    request = new_request()
    request.text("It ", whole=False)
    request.chunk(sound(1, 0, 0, FinishReason.STOP))
    speak, first = request.text("is ", whole=False)
    assert isinstance(speak, Speak) and isinstance(first, Text) and first.piece.text == "is "
    assert names(request.text_over()) == ["Text"]


def test_credits_grow_by_what_was_taken_and_speak_of_this_utterance_alone() -> None:
    request = new_request()
    request.text("One.")
    request.text("Two.")
    request.chunk(sound(1, 0, 3, FinishReason.STOP))
    (credit,) = request.taken(3, 12.5)
    assert isinstance(credit, Credit)
    assert (credit.slot, credit.grant.epoch, credit.grant.frames, credit.grant.heard_until) == (7, 2, 4, 12.5)


def test_late_refused_and_foreign_events() -> None:
    request = new_request()
    request.text("One.")
    assert request.chunk(sound(0, 0, 1)) == [] and request.refused(0, DIED) == []
    wrong = RequestError("no such speaker", param="speaker")
    assert request.refused(1, wrong) == [End(FinishReason.ERROR, wrong)], "nothing of it is left to abort"
    assert request.chunk(sound(1, 0, 1)) == [] and request.text("Two.") == []


def test_a_missing_chunk_is_an_error_and_not_a_hole() -> None:
    request = new_request()
    request.text("One.")
    abort, end = request.chunk(sound(1, 1, 1))
    assert abort == Abort(7, 1) and isinstance(end, End) and "chunk 1 of sound came where 0 was due" in str(end.fault)


def test_wishes_reach_the_talker_and_each_sentence_has_its_own_seed() -> None:
    wishes = Wishes(speaker="joe", chunk_frames=(1, 2), max_frames=9, sampling=SamplingWishes(seed=5))
    request = new_request(wishes)
    (first,) = request.text("One.")
    request.text("One.")
    (second,) = request.chunk(sound(1, 0, 0, FinishReason.STOP))
    assert isinstance(first, Speak) and isinstance(second, Speak)
    assert (first.request.speaker, first.request.chunk_frames, first.request.max_frames) == ("joe", (1, 2), 9)
    assert (first.request.sampling.seed, second.request.sampling.seed) == (5, 6)


@pytest.mark.parametrize(
    ("received", "drained", "waits"),
    [(0, 0, False), (2, 2, False), (2, 0, False), (3, 0, True), (4, 0, True), (4, 3, False)],
)
def test_it_waits_for_its_consumer_where_the_credits_may_not_fill_a_chunk(
    received: int, drained: int, waits: bool
) -> None:
    request = new_request()
    request.text("One.")
    request.chunk(sound(1, 0, received))
    request.taken(drained, None)
    assert request.waits_for_consumer is waits


# Every sequence of events, however senseless, ends a request at most once and leaves nothing behind.

EVENTS: dict[str, Callable[[Request], list[Command]]] = {
    "sentence": lambda request: request.text("One."),
    "words": lambda request: request.text("One", whole=False),
    "text over": lambda request: request.text_over(),
    "sound": lambda request: request.chunk(sound(request.epoch or 1, request._sequence, 1)),
    "last sound": lambda request: request.chunk(sound(request.epoch or 1, request._sequence, 0, FinishReason.STOP)),
    "stage error": lambda request: request.chunk(sound(request.epoch or 1, request._sequence, 0, FinishReason.ERROR)),
    "late sound": lambda request: request.chunk(sound(0, 0, 1)),
    "refused": lambda request: request.refused(request.epoch or 1, DIED),
    "taken": lambda request: request.taken(1, None),
    "abort": lambda request: request.abort(),
    "stage died": lambda request: request.fail(DIED),
}


def test_no_sequence_of_events_ends_it_twice() -> None:
    for events in product(EVENTS, repeat=5):
        request = new_request()
        commands: list[Command] = []
        for event in events:
            was_done = request.state is State.DONE
            answer = EVENTS[event](request)
            assert not (was_done and answer), f"{events}: {answer} after the end"
            commands += answer
        kinds = Counter(map(type, commands))
        assert kinds[End] == (request.state is State.DONE), events
        if kinds[End]:
            assert isinstance(commands[-1], End) and request.epoch is None, events


# A pure world around it: a talker and a codec that make two sentences, a consumer, and what goes wrong.


class Epochs:
    """Numbers that can be copied together with their world."""

    def __init__(self) -> None:
        self.last = 0

    def __call__(self) -> int:
        self.last += 1
        return self.last


@dataclass
class World:
    """What may happen next, one event at a time, in the hands of a scheduler."""

    #: things that go wrong, each at most once and at any time
    troubles: frozenset[str]
    request: Request = field(default_factory=lambda: Request(7, PLAIN, LIMITS, 2, Epochs()))
    #: words, and whether their sentence ends with them
    text: deque[tuple[str, bool]] = field(default_factory=lambda: deque([("aaa", True), ("b", False), ("b", True)]))
    text_open: bool = True
    talker: dict[int, list[int]] = field(default_factory=dict)  # epoch → frames to make, made, granted, may grow
    codes: deque[tuple[int, int, bool]] = field(default_factory=deque)  # epoch, sequence, last
    buffer: int = 0
    delivered: int = 0
    ends: list[tuple[FinishReason, bool]] = field(default_factory=list)  # and whether with the fault of a death
    aborts: int = 0

    def key(self) -> str:
        """All that the future depends on."""
        request = sorted((name, str(value)) for name, value in vars(self.request).items() if name != "_next_epoch")
        return repr([value for name, value in vars(self).items() if name != "request"]) + str(request)

    def choices(self) -> Iterator[str]:
        if self.text:
            yield "text"
        elif self.text_open:
            yield "text over"
        if any(self._may_speak(epoch) for epoch in self.talker):
            yield "talker"
        if self.codes:
            yield "codec"
        if self.buffer:
            yield "consumer"
        yield from self.troubles

    def do(self, choice: str) -> None:
        request = self.request
        match choice:
            case "text":
                words, whole = self.text.popleft()
                self.obey(request.text(words, whole=whole))
            case "text over":
                self.text_open = False
                self.obey(request.text_over())
            case "talker":
                self._speak(next(epoch for epoch in self.talker if self._may_speak(epoch)))
            case "codec":
                epoch, sequence, last = self.codes.popleft()
                self.obey(request.chunk(sound(epoch, sequence, not last, FinishReason.STOP if last else None)))
            case "consumer":
                self.buffer -= 1
                self.obey(request.taken(1, None))
            case _:
                self.troubles -= {choice}
                self.obey(request.fail(DIED) if choice in ("stage died", "deadline") else request.abort())

    def obey(self, commands: list[Command]) -> None:
        for command in commands:
            assert not self.ends, f"{command} after the end"
            match command:
                case Speak(wanted):
                    self.talker[wanted.epoch] = [len(wanted.text or ""), 0, wanted.granted_frames, wanted.text is None]
                case Text(_, piece):
                    if piece.epoch in self.talker:
                        self.talker[piece.epoch][0] += len(piece.text)
                        self.talker[piece.epoch][3] = not piece.last
                case Credit(_, grant):
                    if grant.epoch in self.talker:
                        self.talker[grant.epoch][2] = grant.frames
                case Abort(_, epoch):
                    self.aborts += 1
                    self.talker.pop(epoch, None)
                case Deliver(chunk):
                    self.buffer += chunk.frames
                    self.delivered += chunk.frames
                    assert self.buffer <= LIMITS.buffer_frames, "the buffer is bounded"
                case End(finish, fault):
                    self.ends.append((finish, fault is DIED))
                    self.buffer = 0 if finish is FinishReason.CANCELLED else self.buffer

    def _may_speak(self, epoch: int) -> bool:
        frames, made, granted, growing = self.talker[epoch]
        return not growing if made == frames else made < granted

    def _speak(self, epoch: int) -> None:
        frames, made, *_ = self.talker[epoch]
        self.codes.append((epoch, made, made == frames))
        self.talker[epoch][1] += 1
        if made == frames:
            del self.talker[epoch]


def last_worlds(troubles: frozenset[str]) -> list[World]:
    """Every world in which nothing more can happen. Each state is gone on from once, whichever way led there."""
    seen, open_, last = set(), [World(troubles)], []
    while open_:
        world = open_.pop()
        choices = list(world.choices())
        if not choices:
            last.append(world)
        for choice in choices:
            after = deepcopy(world)
            after.do(choice)
            if after.key() not in seen:
                seen.add(after.key())
                open_.append(after)
    return last


TROUBLES = ("abort", "consumer gone", "stage died", "deadline")


@pytest.mark.parametrize("troubles", [(), *combinations(TROUBLES, 1), *combinations(TROUBLES, 2)])
def test_every_interleaving_ends_exactly_once(troubles: tuple[str, ...]) -> None:
    finishes = set()
    for world in last_worlds(frozenset(troubles)):
        assert len(world.ends) == 1, "nothing hangs and nothing ends twice"
        (finish, died) = world.ends[0]
        finishes.add(finish)
        assert world.request.state is State.DONE and not world.talker and not world.buffer
        assert world.delivered <= 5 and died == (finish is FinishReason.ERROR)
        if finish is FinishReason.STOP:
            assert world.delivered == 5 and not world.aborts
    aborted = {FinishReason.CANCELLED} if {"abort", "consumer gone"} & set(troubles) else set()
    failed = {FinishReason.ERROR} if {"stage died", "deadline"} & set(troubles) else set()
    assert finishes == {FinishReason.STOP} | aborted | failed, (
        "trouble comes in time in some of them, too late in others"
    )
