"""What `generate` gives its caller: the text of one request, delta by delta."""

from __future__ import annotations

import asyncio

from ouzel.orchestrator.output import Output
from ouzel.orchestrator.writing import Writing
from ouzel.stages.language import LanguageRequest, TextDelta, Usage

__all__ = ["Generation"]


class Generation(Output[TextDelta]):
    """Iterate over it, and leave it as a context manager, so that it ends when nobody reads any more.

        async with omni.generate(LanguageRequest(prompt="The river")) as generation:
            async for delta in generation:
                show(delta.content)

    The last delta has the usage. Who reads slowly gets longer deltas, and holds up nobody. Dropping it unfinished
    aborts it. Its `finish` is that of its first choice, where it has several.
    """

    def __init__(self, writing: Writing, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(writing, loop)
        self._writing = writing

    @property
    def request(self) -> LanguageRequest:
        return self._writing.answer.request

    @property
    def usage(self) -> Usage | None:
        """Tokens of the whole request; None until the model is done."""
        return self._writing.answer.usage
