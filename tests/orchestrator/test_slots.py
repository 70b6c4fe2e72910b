from __future__ import annotations

import pytest

from ouzel.errors import BusyError
from ouzel.orchestrator.slots import Slots


def test_the_lowest_free_slot_is_next_and_there_is_a_bound() -> None:
    slots = Slots(running=2, waiting=1)
    assert [slots.take() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(BusyError, match="2 requests are running and 1 waiting"):
        slots.take()
    slots.give_back(1)
    slots.give_back(0)
    assert (slots.taken, slots.take(), slots.take()) == (1, 0, 1)


def test_no_epoch_is_given_twice() -> None:
    slots = Slots(1, 0)
    assert [slots.next_epoch() for _ in range(3)] == [1, 2, 3]
