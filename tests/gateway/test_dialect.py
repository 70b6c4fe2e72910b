from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.errors import BusyError, OuzelError, RequestError
from ouzel.gateway.dialect import (
    AudioDone,
    AudioPiece,
    AudioStart,
    Cancel,
    Close,
    Configure,
    EndOfText,
    Fault,
    NativeDialect,
    PieceTiming,
    SessionCreated,
    SessionDone,
    Text,
    TextDone,
    TextPiece,
)
from ouzel.gateway.timing import Timing
from ouzel.stages.core import FinishReason
from ouzel.stages.language import Usage
from ouzel.stats.phases import Phase

CONFIG = '{"type":"session.config","voice":"alloy"}'


def text(piece: str) -> str:
    return json.dumps({"type": "input.text", "text": piece})


DONE = '{"type":"input.done"}'
CANCEL = '{"type":"input.cancel"}'


def configured() -> NativeDialect:
    dialect = NativeDialect()
    dialect.receive(CONFIG)
    return dialect


def test_utterances_are_numbered_by_their_ends() -> None:
    dialect = configured()
    commands = [dialect.receive(message) for message in (text("One "), text("two."), DONE, text("Three."), DONE, DONE)]
    assert commands == [Text(0, "One "), Text(0, "two."), EndOfText(0), Text(1, "Three."), EndOfText(1), EndOfText(2)]


def test_the_config_reaches_the_command() -> None:
    command = NativeDialect().receive('{"type":"session.config","voice":{"id":"x"},"format":"opus","timing":true}')
    assert isinstance(command, Configure)
    assert (command.config.format, command.config.timing, command.config.voice) == ("opus", True, command.config.voice)


def test_text_after_a_cancel_belongs_to_the_next_utterance() -> None:
    dialect = configured()
    commands = [dialect.receive(message) for message in (text("Stale"), CANCEL, text("New"), DONE)]
    assert commands == [Text(0, "Stale"), Cancel(None), Text(1, "New"), EndOfText(1)]


def test_cancelling_an_older_utterance_leaves_the_text_that_comes() -> None:
    dialect = configured()
    old = '{"type":"input.cancel","utterance_index":0}'
    commands = [dialect.receive(message) for message in (text("a"), DONE, text("b"), old, text("c"))]
    assert commands[2:] == [Text(1, "b"), Cancel(0), Text(1, "c")]


def test_the_config_may_change_between_utterances_and_not_inside() -> None:
    dialect = configured()
    dialect.receive(text("One"))
    with pytest.raises(RequestError, match="not come inside an utterance"):
        dialect.receive(CONFIG)
    dialect.receive(DONE)
    assert isinstance(dialect.receive(CONFIG), Configure)


def test_after_close_only_a_cancel_may_come() -> None:
    dialect = configured()
    assert dialect.receive('{"type":"session.close"}') == Close()
    assert dialect.receive(CANCEL) == Cancel(None)
    with pytest.raises(RequestError, match="after session.close"):
        dialect.receive(text("more"))


@pytest.mark.parametrize(
    ("message", "param", "words"),
    [
        (b"\x00", None, "binary"),
        ("hello", None, "message: not JSON"),
        ('{"type":"input.audio"}', "type", "valid are session.config, input.text"),
        ("{}", "type", "None is no message"),
        ('{"type":"input.text","text":7}', "text", "a string is needed, not int"),
        ('{"type":"input.text"}', "text", "not NoneType"),
        ('{"type":"input.cancel","utterance_index":-1}', "utterance_index", "a whole number"),
        ('{"type":"input.cancel","utterance_index":true}', "utterance_index", "a whole number"),
        ('{"type":"session.config","speed":"fast"}', "speed", "number"),
        ('{"type":"session.config","format":7}', "format", "string"),
    ],
)
def test_what_is_not_understood_is_named(message: str | bytes, param: str | None, words: str) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        configured().receive(message)
    assert caught.value.param == param


@pytest.mark.parametrize("message", [text("early"), DONE, CANCEL])
def test_nothing_may_come_before_the_config(message: str) -> None:
    with pytest.raises(RequestError, match="before session.config"):
        NativeDialect().receive(message)


@given(st.lists(st.one_of(st.text(max_size=20), st.binary(max_size=5), st.sampled_from([CONFIG, DONE, CANCEL]))))
def test_any_message_is_a_command_or_a_request_error(messages: list[str | bytes]) -> None:
    dialect = NativeDialect()
    for message in messages:
        try:
            dialect.receive(message)
        except OuzelError as error:
            assert isinstance(error, RequestError)


def sent(event: object) -> dict[str, object]:
    message = NativeDialect().send(event)  # type: ignore[arg-type]
    assert isinstance(message, str)
    return json.loads(message)


def test_events_as_they_go_over_the_wire() -> None:
    assert sent(SessionCreated("s", ["wren"], 24_000)) == {
        "type": "session.created", "session_id": "s", "voices": ["wren"], "sample_rate": 24_000,
    }  # fmt: skip
    assert sent(AudioStart(3, "pcm", 8_000)) == {
        "type": "audio.start", "utterance_index": 3, "format": "pcm", "sample_rate": 8_000, "channels": 1,
    }  # fmt: skip
    assert sent(AudioDone(utterance=3, reason=FinishReason.STOP, frames=4, audio_ms=320)) == {
        "type": "audio.done", "utterance_index": 3, "reason": "stop", "frames": 4, "audio_ms": 320,
    }  # fmt: skip
    assert sent(SessionDone(2)) == {"type": "session.done", "utterances": 2}
    assert sent(Fault(RequestError("text: no", param="text"))) == {
        "type": "error", "code": "invalid_request_error", "message": "text: no", "param": "text",
    }  # fmt: skip
    assert sent(TextPiece(1, "Hi")) == {"type": "text.delta", "utterance_index": 1, "text": "Hi"}
    usage = Usage(prompt_tokens=3, completion_tokens=2, cached_tokens=1)
    assert sent(TextDone(1, "Hi.", FinishReason.STOP, usage)) == {
        "type": "text.done", "utterance_index": 1, "text": "Hi.", "reason": "stop", "usage": {
            "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens_details": {"reasoning_tokens": 0},
        },
    }  # fmt: skip
    assert NativeDialect().send(AudioPiece(b"\x01\x02")) == b"\x01\x02"


def test_an_end_with_an_error_says_which() -> None:
    done = sent(AudioDone(utterance=0, reason=FinishReason.ERROR, frames=0, audio_ms=0, error=BusyError("full")))
    assert (done["reason"], done["error"]) == ("error", {"code": "rate_limit_error", "message": "full"})


def test_a_timing_adds_up() -> None:
    phases = {Phase.QUEUE: 9_000_000, Phase.BACKBONE: 60_000_000, Phase.SEND: 500_000}
    found = sent(PieceTiming(1, Timing(frame=2, frames=4, audio_ms=320, phases=phases, starved_ns=1_000_000)))
    assert found == {
        "type": "audio.timing", "utterance_index": 1, "frame": 2, "frames": 4, "audio_ms": 320,
        "phases_ms": {"backbone": 60, "send": 0.5}, "used_ms": 60.5, "budget_ms": 320,
        "before_ms": {"queue": 9}, "starved_ms": 1, "gap_ms": 0,
    }  # fmt: skip
