"""A language model without a model: it says a few words to everything, and a test says what else and how it fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ouzel.errors import NotReadyError, OuzelError
from ouzel.orchestrator.language import LanguageState, LanguageStatus
from ouzel.stages.core import FinishReason
from ouzel.stages.language import LanguageFacts, LanguageRequest, TextDelta, TokenLogprob, Usage

MODEL = "ouzel-fake-lm"
WORDS = ("Paris", " is", " the", " capital", " of", " France", ".")
TEXT = "".join(WORDS)
PROMPT_TOKENS = 5

Script = Callable[[LanguageRequest], Iterable[TextDelta]]


def said(content: str = "", **fields: object) -> TextDelta:
    """A delta of a script; its place in the request is filled in."""
    return TextDelta(slot=0, epoch=0, sequence=0, content=content, **fields)  # type: ignore[arg-type]


def token(text: str, logprob: float = -0.5, top: Sequence[tuple[str, float]] = ()) -> TokenLogprob:
    alternatives = tuple(token(other, value) for other, value in top)
    return TokenLogprob(token=text, bytes=tuple(text.encode()), logprob=logprob, top=alternatives)


def in_words(request: LanguageRequest) -> Iterator[TextDelta]:
    """The words, one a step, in each choice; as many as `max_tokens` allows."""
    most = request.sampling.max_tokens or len(WORDS)
    words, finish = WORDS[:most], FinishReason.STOP if most >= len(WORDS) else FinishReason.LENGTH
    asked = request.sampling.logprobs
    for at, word in enumerate(words):
        for index in range(request.n):
            logprobs = () if asked is None else (token(word, -0.5, [("?", -1.5)] * min(asked, 1)),)
            end = finish if at == len(words) - 1 else None
            yield said(word, index=index, logprobs=logprobs, finish=end)


def script(*deltas: TextDelta) -> Script:
    return lambda request: deltas


class FakeLanguage:
    """Plays a script; its usage and the numbers of its deltas come by themselves."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """As new."""
        facts = LanguageFacts(model=MODEL, context=2048, kv_tokens=4096)
        self.now = LanguageStatus(state=LanguageState.READY, model=MODEL, facts=facts, most_requests=6)
        self.script: Script = in_words
        #: raised at the first pull
        self.refusal: OuzelError | None = None
        #: raised after so many deltas
        self.fault: tuple[int, OuzelError] | None = None
        #: ends after so many deltas without saying how
        self.stops_after: int | None = None
        #: deltas wait for it
        self.gate = asyncio.Event()
        self.gate.set()
        #: deltas that pass the gate before it is looked at
        self.free_deltas = 0
        self.asked: list[LanguageRequest] = []
        self.ids: list[str] = []
        self.running = 0
        self.deltas_made = 0

    def status(self) -> LanguageStatus:
        return self.now

    async def generate(self, request: LanguageRequest, request_id: str) -> AsyncGenerator[TextDelta, None]:
        self.asked.append(request)
        self.ids.append(request_id)
        if not self.now.serving:
            raise NotReadyError(self.now.reason or self.now.state.value)
        if self.refusal is not None:
            raise self.refusal
        self.running += 1
        try:
            deltas = list(self.script(request))
            for at, delta in enumerate(deltas):
                if self.fault is not None and at == self.fault[0]:
                    raise self.fault[1]
                if at == self.stops_after:
                    return
                if at >= self.free_deltas:
                    await self.gate.wait()
                self.deltas_made += 1
                usage = Usage(prompt_tokens=PROMPT_TOKENS, completion_tokens=len(deltas), cached_tokens=2)
                yield replace(delta, sequence=at, usage=usage if at == len(deltas) - 1 else None)
        finally:
            self.running -= 1
