from __future__ import annotations

import os
import select

import pytest

from ouzel.errors import EngineError
from ouzel.stages.channel import LONGEST, LONGEST_MESSAGE, Channel
from ouzel.stages.core import TextPiece
from ouzel.stages.messages import Attach, Beat, Message, Text


def test_what_has_no_room_waits_in_order() -> None:
    ours, theirs = Channel.pair()
    most = 500
    for number in range(most):
        ours.send(Text(number, TextPiece(1, "x" * 4096)))
    assert ours.wants_room
    found: list[int] = []
    while len(found) < most:
        received = theirs.receive()
        if received is None:
            ours.flush()
            continue
        assert isinstance(received.message, Text)
        found.append(received.message.slot)
    assert found == list(range(most)) and not ours.wants_room
    ours.close()
    theirs.close()


def test_descriptors_travel_and_the_senders_stay_open() -> None:
    ours, theirs = Channel.pair()
    reading, writing = os.pipe()
    ours.send(Attach("input"), [writing])
    os.close(writing)
    received = theirs.receive()
    assert received is not None and received.message == Attach("input")
    (arrived,) = received.descriptors
    os.write(arrived, b"!")
    assert os.read(reading, 1) == b"!"
    for descriptor in (arrived, reading):
        os.close(descriptor)
    ours.close()
    theirs.close()


def test_the_other_end_sees_the_end() -> None:
    ours, theirs = Channel.pair()
    ours.send(Beat(1))
    ours.close()
    poller = select.poll()
    poller.register(theirs, select.POLLIN)
    assert poller.poll(0)
    assert theirs.receive() is not None and not theirs.ended
    assert theirs.receive() is None and theirs.ended
    theirs.send(Beat(2))
    assert not theirs.wants_room, "what is said to nobody is lost, and keeps no descriptor open"
    theirs.close()


def test_last_words_are_heard_though_the_speaker_left_what_it_was_sent_unread() -> None:
    ours, theirs = Channel.pair()
    ours.send(Beat(1))
    theirs.send(Beat(2))
    theirs.close()
    received = ours.receive()
    assert received is not None and received.message == Beat(2)
    assert ours.receive() is None and ours.ended
    ours.close()


def test_a_message_that_is_too_long_is_an_error() -> None:
    ours, theirs = Channel.pair()
    with pytest.raises(EngineError, match="a channel takes"):
        ours.send(Text(0, TextPiece(1, "x" * LONGEST_MESSAGE)))
    ours.close()
    theirs.close()


@pytest.mark.parametrize("letters", [LONGEST - 30, LONGEST, 2 * LONGEST, 1 << 20])
def test_a_message_longer_than_a_packet_arrives_whole_and_in_its_place(letters: int) -> None:
    ours, theirs = Channel.pair()
    sent = [Text(1, TextPiece(1, "ü")), Text(2, TextPiece(1, "x" * letters)), Text(3, TextPiece(1, ""))]
    for message in sent:
        ours.send(message)
    found: list[Message] = []
    while len(found) < len(sent):
        if (received := theirs.receive()) is None:
            assert not theirs.ended
            ours.flush()
        else:
            found.append(received.message)
    assert found == sent
    ours.close()
    theirs.close()
