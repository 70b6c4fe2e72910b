"""An answer between its request and its consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ouzel.errors import EngineError
from ouzel.orchestrator.answer import Answer, AnswerCommand
from ouzel.orchestrator.request import End
from ouzel.orchestrator.writing import MOST_DELTAS, Writing, joined
from ouzel.scheduling import ProgressDeadline
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageRequest, TextDelta, TokenLogprob, ToolCallDelta, Usage
from ouzel.stages.messages import Abort, Generate

USAGE = Usage(prompt_tokens=1, completion_tokens=1)


class Harness:
    """A writing whose commands are noted, and delivered to it as the desk would."""

    def __init__(self, n: int = 1) -> None:
        self.sent: list[AnswerCommand] = []
        self.sequence = 0
        answer = Answer(LanguageRequest(slot=0, epoch=1, prompt="One", n=n))
        self.writing = Writing(answer, "r1", ProgressDeadline(9), self.carry_out)
        self.writing.act(answer.begin())

    def carry_out(self, writing: Writing, commands: Sequence[AnswerCommand]) -> None:
        for command in commands:
            match command:
                case TextDelta():
                    writing.deliver(command)
                case End():
                    writing.end(command)
                case Generate() | Abort():
                    self.sent.append(command)

    def text(self, content: str, finish: FinishReason | None = None, *, index: int = 0, last: bool = False) -> None:
        delta = TextDelta(
            slot=0,
            epoch=1,
            sequence=self.sequence,
            index=index,
            content=content,
            finish=finish,
            usage=USAGE if last else None,
        )
        self.sequence += 1
        self.writing.act(self.writing.answer.delta(delta))

    async def rest(self) -> list[TextDelta]:
        found = []
        while (delta := await self.writing.next()) is not None:
            found.append(delta)
        return found


async def test_text_comes_as_it_was_written_and_then_none() -> None:
    harness = Harness()
    waiting = asyncio.ensure_future(harness.writing.next())
    await asyncio.sleep(0)
    assert not waiting.done()
    harness.text("Hello")
    assert (await waiting).content == "Hello"  # type: ignore[union-attr]
    harness.text(".", FinishReason.STOP, last=True)
    assert harness.writing.ended is None, "its consumer hasn't seen the end"
    assert [delta.content for delta in await harness.rest()] == ["."]
    assert harness.writing.ended == End(FinishReason.STOP) and await harness.writing.next() is None


@given(st.lists(st.integers(0, 2), min_size=MOST_DELTAS - 5, max_size=3 * MOST_DELTAS))
def test_what_nobody_takes_is_joined_and_nothing_of_it_is_lost(choices: list[int]) -> None:
    pieces = [(index, f"{number} ") for number, index in enumerate(choices)]

    async def run() -> None:
        harness = Harness(n=3)
        for index, content in pieces:
            harness.text(content, index=index)
        for index in (2, 1, 0):
            harness.text("!", FinishReason.STOP, index=index, last=index == 0)
        deltas = await harness.rest()
        assert len(deltas) <= MOST_DELTAS + 3
        for index in range(3):
            whole = "".join(content for place, content in pieces if place == index) + "!"
            assert "".join(delta.content for delta in deltas if delta.index == index) == whole
        assert [delta.last for delta in deltas] == [False] * (len(deltas) - 1) + [True]
        assert sorted(delta.sequence for delta in deltas) == [delta.sequence for delta in deltas]

    asyncio.run(run())


def test_joined_deltas_keep_every_part() -> None:
    def call(index: int, arguments: str, name: str | None = None) -> ToolCallDelta:
        return ToolCallDelta(index=index, id=name, name=name, arguments=arguments)

    def logprob(token: str) -> TokenLogprob:
        return TokenLogprob(token=token, bytes=(), logprob=-1.0)

    first = TextDelta(slot=0, epoch=1, sequence=4, content="a", reasoning="r", logprobs=(logprob("a"),))
    first_call = TextDelta(slot=0, epoch=1, sequence=5, tool_calls=(call(0, "{", "look"),))
    second = TextDelta(
        slot=0,
        epoch=1,
        sequence=6,
        content="b",
        reasoning="s",
        tool_calls=(call(0, "}"), call(1, "{}", "see")),
        logprobs=(logprob("b"),),
        finish=FinishReason.TOOL_CALLS,
        usage=USAGE,
    )
    both = joined(joined(first, first_call), second)
    assert (both.sequence, both.content, both.reasoning) == (6, "ab", "rs")
    assert both.tool_calls == (call(0, "{}", "look"), call(1, "{}", "see"))
    assert [one.token for one in both.logprobs] == ["a", "b"]
    assert both.finish is FinishReason.TOOL_CALLS and both.last


async def test_an_abort_drops_what_nobody_took_also_when_all_is_written() -> None:
    harness = Harness()
    harness.text("Hello")
    harness.writing.abort()
    assert harness.sent[-1] == Abort(0, 1) and await harness.rest() == []
    assert harness.writing.ended == End(FinishReason.CANCELLED)

    late = Harness()
    late.text("Hello", FinishReason.STOP, last=True)
    late.writing.abort()
    assert late.writing.ended == End(FinishReason.CANCELLED) and await late.rest() == []
    assert len(late.sent) == 1, "there is nothing to abort in the stage"

    heard = Harness()
    heard.text("Hello", FinishReason.STOP, last=True)
    await heard.rest()
    heard.writing.abort()
    assert heard.writing.ended == End(FinishReason.STOP), "what has ended stays as it ended"


async def test_what_failed_is_raised_after_its_last_text_and_by_every_later_call() -> None:
    harness = Harness()
    harness.text("Hello")
    harness.writing.act(harness.writing.answer.fail(EngineError("a stage died")))
    await harness.writing.wait()
    assert (await harness.writing.next()).content == "Hello"  # type: ignore[union-attr]
    for _ in range(2):
        with pytest.raises(EngineError, match="a stage died"):
            await harness.writing.next()
    with pytest.raises(EngineError, match="a stage died"):
        await harness.writing.wait()
