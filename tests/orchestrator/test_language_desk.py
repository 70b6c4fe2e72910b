from __future__ import annotations

import pytest

from ouzel.errors import EngineError
from ouzel.orchestrator.language_desk import LanguageDesk
from ouzel.orchestrator.slots import Slots
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, TextDelta
from ouzel.stages.messages import Abort, Generate

REQUEST = LanguageRequest(prompt="Hello")


class Harness:
    """A desk whose commands are noted, and its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sent: list[Generate | Abort] = []
        self.desk = LanguageDesk(Slots(2, 0), 9.0, self.sent.append, lambda: self.now)


async def test_silence_ends_a_request_at_its_deadline_and_its_own_text_puts_it_off() -> None:
    harness = Harness()
    silent, writing = (harness.desk.open(REQUEST, name) for name in ("one", "two"))
    harness.now += 8
    harness.desk.heard(TextDelta(slot=1, epoch=2, sequence=0, content="x"))
    harness.now += 2
    harness.desk.check_deadlines()
    with pytest.raises(EngineError, match=r"request one: no progress for 10.0 s"):
        await silent.wait()
    assert harness.sent[-1] == Abort(0, 1) and writing.finish is None
    assert harness.desk.taken == 1


async def test_work_on_all_puts_off_every_deadline() -> None:
    harness = Harness()
    waiting = harness.desk.open(REQUEST, "one")
    for _ in range(3):
        harness.now += 8
        harness.desk.progressed()
        harness.desk.check_deadlines()
    assert waiting.finish is None
    harness.desk.close()


async def test_slots_are_used_again_under_new_epochs_and_late_text_is_dropped() -> None:
    harness = Harness()
    first = harness.desk.open(REQUEST, "one")
    first.abort()
    second = harness.desk.open(REQUEST, "two")
    begun = [(sent.request.slot, sent.request.epoch) for sent in harness.sent if isinstance(sent, Generate)]
    assert begun == [(0, 1), (0, 2)]
    harness.desk.heard(TextDelta(slot=0, epoch=1, sequence=0, content="late"))
    harness.desk.heard(TextDelta(slot=1, epoch=9, sequence=0, content="nobody's"))
    harness.desk.refused(0, 1, EngineError("late"))
    assert second.finish is None and first.finish is FinishReason.CANCELLED
    harness.desk.went_down(EngineError("gone"))
    with pytest.raises(EngineError, match="gone"):
        await second.wait()
