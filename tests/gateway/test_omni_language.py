"""The orchestrator's language side behind the gateway: its own desk and requests, with a test in the stage's place."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from running import until

from ouzel.errors import BusyError, EngineError
from ouzel.gateway.language import LanguageModel
from ouzel.gateway.omni import OmniLanguage
from ouzel.orchestrator.language import Generation, LanguageState, LanguageStatus
from ouzel.orchestrator.language_desk import LanguageDesk
from ouzel.orchestrator.slots import Slots
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, TextDelta, Usage
from ouzel.stages.messages import Abort, Generate

REQUEST = LanguageRequest(prompt="The river")


class OneAtATime:
    """What an orchestrator's language model needs of itself here."""

    def __init__(self) -> None:
        self.sent: list[Generate | Abort] = []
        self.desk = LanguageDesk(Slots(1, 0), deadline_s=60, carry_out=self.sent.append)

    def generate(self, request: LanguageRequest, request_id: str) -> Generation:
        return self.desk.open(request, request_id)

    def status(self) -> LanguageStatus:
        return LanguageStatus(state=LanguageState.READY, model="tiny")

    def say(self, sequence: int, content: str, *, last: bool = False) -> None:
        request = self.sent[0].request  # type: ignore[union-attr]
        usage = Usage(prompt_tokens=2, completion_tokens=sequence + 1) if last else None
        finish = FinishReason.STOP if last else None
        self.desk.heard(
            TextDelta(
                slot=request.slot, epoch=request.epoch, sequence=sequence, content=content, finish=finish, usage=usage
            )
        )


async def test_its_deltas_pass_as_they_are() -> None:
    theirs = OneAtATime()
    language: LanguageModel = OmniLanguage(theirs)  # type: ignore[arg-type]
    assert language.status().model == "tiny"

    async def read() -> list[TextDelta]:
        return [delta async for delta in language.generate(REQUEST, "mine-1")]

    reading = asyncio.create_task(read())
    await until(lambda: bool(theirs.sent))
    theirs.say(0, "keeps")
    theirs.say(1, " time", last=True)
    first, last = await reading
    assert (first.content, last.content, last.finish, last.usage is not None) == ("keeps", " time", "stop", True)
    assert theirs.desk.taken == 0


async def test_leaving_in_the_middle_aborts_at_once() -> None:
    theirs = OneAtATime()
    async with aclosing(OmniLanguage(theirs).generate(REQUEST, "mine-1")) as deltas:  # type: ignore[arg-type]
        first = asyncio.ensure_future(anext(deltas))
        await until(lambda: bool(theirs.sent))
        theirs.say(0, "keeps")
        assert (await first).content == "keeps"
    sent = theirs.sent[0]
    assert isinstance(sent, Generate)
    assert theirs.sent[1:] == [Abort(sent.request.slot, sent.request.epoch)]


async def test_what_it_raises_comes_at_the_pull() -> None:
    theirs = OneAtATime()
    language = OmniLanguage(theirs)  # type: ignore[arg-type]
    waiting = asyncio.ensure_future(anext(language.generate(REQUEST, "a")))
    await until(lambda: bool(theirs.sent))
    refused = language.generate(REQUEST, "b")
    with pytest.raises(BusyError):
        await anext(refused)
    theirs.desk.went_down(EngineError("the language stage died"))
    with pytest.raises(EngineError, match="the language stage died"):
        await waiting
