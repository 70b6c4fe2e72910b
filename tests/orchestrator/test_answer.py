"""A request of text as a pure object: every sequence of what can happen to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product

import pytest

from ouzel.errors import EngineError, RequestError
from ouzel.orchestrator.answer import Answer, AnswerCommand, AnswerState
from ouzel.orchestrator.request import End
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, TextDelta, Usage
from ouzel.stages.messages import Abort, Generate

DIED = EngineError("the stage died")
USAGE = Usage(prompt_tokens=3, completion_tokens=2)
STOP = FinishReason.STOP


def new_answer(n: int = 1) -> Answer:
    return Answer(LanguageRequest(slot=7, epoch=4, prompt="One", n=n))


def begun(n: int = 1) -> Answer:
    answer = new_answer(n)
    answer.begin()
    return answer


def delta(
    sequence: int,
    finish: FinishReason | None = None,
    *,
    last: bool = False,
    index: int = 0,
    epoch: int = 4,
    fault: EngineError | None = None,
) -> TextDelta:
    return TextDelta(
        slot=7,
        epoch=epoch,
        sequence=sequence,
        index=index,
        content="x",
        finish=finish,
        usage=USAGE if last else None,
        fault=fault,
    )


def test_it_is_sent_once_and_ends_with_its_last_delta() -> None:
    answer = new_answer()
    assert answer.begin() == [Generate(answer.request)] and answer.state is AnswerState.QUEUED
    assert answer.begin() == []
    assert answer.delta(delta(0)) == [delta(0)] and answer.state is AnswerState.WRITING
    last = delta(1, FinishReason.LENGTH, last=True)
    assert answer.delta(last) == [last, End(FinishReason.LENGTH)] and answer.usage == USAGE
    assert answer.delta(delta(2)) == answer.abort() == answer.fail(DIED) == []


def test_with_several_choices_it_ends_when_all_have_and_as_the_first_did() -> None:
    answer = begun(n=2)
    first, second = delta(0, FinishReason.LENGTH), delta(1, STOP, index=1, last=True)
    assert answer.delta(first) == [first] and answer.state is AnswerState.WRITING
    assert answer.delta(second) == [second, End(FinishReason.LENGTH)]


@pytest.mark.parametrize(
    ("deltas", "told"),
    [
        ([delta(1)], "delta 1 came where 0 was due"),
        ([delta(0, index=2)], "a delta came for choice 2 of 2"),
        ([delta(0, STOP), delta(1)], "choice 0, which had ended"),
        ([delta(0, last=True)], "choice 0 ended without saying how"),
        ([delta(0, STOP, last=True)], "the request ended with 1 of 2 choices"),
    ],
)
def test_disorder_is_an_error_and_what_is_left_of_it_is_aborted(deltas: list[TextDelta], told: str) -> None:
    answer = begun(n=2)
    *before, wrong = deltas
    for one in before:
        assert answer.delta(one) == [one]
    abort, end = answer.delta(wrong)
    assert abort == Abort(7, 4) and isinstance(end, End) and end.finish is FinishReason.ERROR
    assert told in str(end.fault)


def test_a_fault_of_the_stage_is_the_end_of_all_choices() -> None:
    answer = begun(n=2)
    assert answer.delta(delta(9, FinishReason.ERROR, last=True, fault=DIED)) == [End(FinishReason.ERROR, DIED)]
    stubborn = begun(n=2)
    assert stubborn.delta(delta(0, FinishReason.ERROR, fault=DIED)) == [Abort(7, 4), End(FinishReason.ERROR, DIED)]


def test_a_stage_that_cancels_by_itself_is_at_fault() -> None:
    (end,) = begun().delta(delta(0, FinishReason.CANCELLED, last=True))
    assert isinstance(end, End) and end.finish is FinishReason.ERROR and "nobody had aborted" in str(end.fault)


def test_late_refused_and_aborted() -> None:
    answer = begun()
    assert answer.delta(delta(0, epoch=3)) == answer.refused(3, DIED) == []
    wrong = RequestError("no such template", param="messages")
    assert answer.refused(4, wrong) == [End(FinishReason.ERROR, wrong)], "nothing of it is left to abort"
    assert begun().abort() == [Abort(7, 4), End(FinishReason.CANCELLED)]
    assert new_answer().abort() == [End(FinishReason.CANCELLED)], "nobody knows of it yet"


def place(answer: Answer) -> int:
    return answer._sequence


EVENTS: dict[str, Callable[[Answer], list[AnswerCommand]]] = {
    "begin": lambda answer: answer.begin(),
    "text": lambda answer: answer.delta(delta(place(answer))),
    "end of a choice": lambda answer: answer.delta(delta(place(answer), STOP, index=1)),
    "last": lambda answer: answer.delta(delta(place(answer), STOP, last=True)),
    "fault": lambda answer: answer.delta(delta(place(answer), FinishReason.ERROR, last=True, fault=DIED)),
    "gap": lambda answer: answer.delta(delta(place(answer) + 1)),
    "late": lambda answer: answer.delta(delta(place(answer), epoch=3)),
    "refused": lambda answer: answer.refused(4, DIED),
    "abort": lambda answer: answer.abort(),
    "stage died": lambda answer: answer.fail(DIED),
}


def test_no_sequence_of_events_ends_it_twice() -> None:
    finishes: Counter[FinishReason] = Counter()
    for events in product(EVENTS, repeat=5):
        answer = new_answer(n=2)
        commands: list[AnswerCommand] = []
        for event in events:
            was_done = answer.state is AnswerState.DONE
            said = EVENTS[event](answer)
            assert not (was_done and said), f"{events}: {said} after the end"
            commands += said
        kinds = Counter(map(type, commands))
        assert kinds[End] == (answer.state is AnswerState.DONE), events
        assert kinds[Generate] <= 1 and kinds[Abort] <= kinds[Generate], "only what was sent is aborted"
        assert not kinds[TextDelta] or isinstance(commands[0], Generate), "nothing is told before it was sent"
        if kinds[End]:
            end = commands[-1]
            assert isinstance(end, End), events
            assert (end.fault is None) == (end.finish is not FinishReason.ERROR)
            finishes[end.finish] += 1
    assert finishes.keys() == {STOP, FinishReason.ERROR, FinishReason.CANCELLED}
