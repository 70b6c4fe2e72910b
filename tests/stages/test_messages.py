from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ouzel.errors
from ouzel.errors import EngineError, RequestError
from ouzel.stages import messages
from ouzel.stages.core import FinishReason, Grant, SamplingWishes, TalkerRequest, TextPiece
from ouzel.stages.language import (
    LanguageFacts,
    LanguageRequest,
    LanguageSampling,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)
from ouzel.stages.messages import (
    Abort,
    Attach,
    Beat,
    Credit,
    Fault,
    Generate,
    Generated,
    Message,
    Ready,
    Setup,
    Speak,
    StageRole,
    StatsReply,
    Text,
    decode,
    encode,
)
from ouzel.stats.timeline import Span

texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(0, 2**40)
#: those whose fields say it all; what is JSON by contract has mappings, for which hypothesis would draw any object
KINDS = [kind for kind in messages._BY_NAME.values() if kind not in (Setup, StatsReply, Generate, Beat)]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_message_arrives_as_it_was_sent(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(st.from_type(kind))
    assert repr(decode(encode(message))) == repr(message), "by repr: NaN is not itself"


def test_settings_and_snapshots_arrive() -> None:
    reply = StatsReply(({"process": "talker", "inside": {"hop": {"count": 1}}},))
    assert decode(encode(reply)) == reply
    setup = Setup(StageRole.SPEECH, "/voices/ü", {"talker.threads": 1, "talker.cpus": None}, 1, 0, (0, 1), True, 5)
    assert decode(encode(setup)) == setup


def test_a_conversation_arrives() -> None:
    request = LanguageRequest(
        slot=1,
        epoch=2,
        messages=({"role": "user", "content": [{"type": "text", "text": "Grüße\x00"}]}, {"role": "assistant"}),
        tools=({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},),
        tool_choice="named",
        tool_name="f",
        response_format={"type": "json_object"},
        template={"enable_thinking": False},
        sampling=LanguageSampling(temperature=1, stop=("a", "b"), logprobs=0),
    )
    arrived = decode(encode(Generate(request)))
    assert arrived == Generate(request)
    assert isinstance(arrived, Generate) and type(arrived.request.sampling.temperature) is float
    ids = LanguageRequest(prompt_ids=(1, 2))
    assert decode(encode(Generate(ids))) == Generate(ids)


def test_a_delta_arrives_with_its_fault() -> None:
    top = TokenLogprob(token="b", bytes=(98,), logprob=-9999)
    delta = TextDelta(
        slot=1,
        epoch=2,
        sequence=3,
        content="a",
        reasoning="hm",
        tool_calls=(ToolCallDelta(index=0, id="call", name="f", arguments="{"),),
        logprobs=(TokenLogprob(token="a", bytes=(97,), logprob=-0.5, top=(top,)),),
        finish=FinishReason.ERROR,
        usage=Usage(prompt_tokens=1, completion_tokens=1),
    )
    assert decode(encode(Generated(delta))) == Generated(delta)
    arrived = decode(encode(Generated(replace(delta, fault=RequestError("no", param="n")))))
    assert isinstance(arrived, Generated)
    fault = arrived.delta.fault
    assert (type(fault), str(fault), fault and fault.param) == (RequestError, "no", "n")


def test_a_request_keeps_its_types() -> None:
    request = TalkerRequest(
        slot=1,
        epoch=2,
        text="Grüße, 你好\n\x00",
        max_frames=3,
        granted_frames=4,
        sampling=SamplingWishes(temperature=1, seed=1 << 62),
        chunk_frames=(2, 4),
    )
    arrived = decode(encode(Speak(request)))
    assert arrived == Speak(request)
    assert isinstance(arrived, Speak)
    assert type(arrived.request.sampling.temperature) is float


@settings(deadline=None)
@given(texts, numbers)
def test_pieces_credits_and_spans_arrive(text: str, number: int) -> None:
    for message in (
        Text(3, TextPiece(number, text, last=True)),
        Credit(3, Grant(1, number, 2.5)),
        Credit(3, Grant(1, number)),
        Ready((Span("talker", text, number, 1),)),
        Ready((), LanguageFacts(model=text, context=number)),
        Beat(number, {"preemptions": number}),
    ):
        assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'["Speak"]',
        b'["Abort",1]',
        b'["Abort",1,2,3]',
        b'["Abort",1,"2"]',
        b'["Attach","sideways"]',
        b'["Popen","rm"]',
        b'["Beat",true,{}]',
        b"\xff",
    ],
)
def test_what_is_no_message_is_an_error(data: bytes) -> None:
    with pytest.raises(EngineError, match="no message"):
        decode(data)


def test_small_messages_stay_small() -> None:
    assert encode(Abort(1, 2)) == b'["Abort",1,2]'
    assert encode(Beat(7)) == b'["Beat",7,{}]'
    assert encode(Attach("input")) == b'["Attach","input"]'


@pytest.mark.parametrize("name", ouzel.errors.__all__)
def test_an_error_crosses_with_its_kind_and_field(name: str) -> None:
    error = getattr(ouzel.errors, name)("what went wrong", param="voice")
    again = Fault.of(error).error()
    assert (type(again), str(again), again.param) == (type(error), "what went wrong", "voice")


def test_a_fault_of_another_tree_is_an_engine_error() -> None:
    assert isinstance(Fault.of(RequestError("x")).error(), RequestError)
    with pytest.raises(EngineError, match="SystemExit"):
        Fault("SystemExit", "bye").error()
