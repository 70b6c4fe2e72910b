"""Several streams as one, and a sign of life while none of them says anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from itertools import islice
from typing import TypeVar

__all__ = ["PING", "merged"]

T = TypeVar("T")

#: A comment among events: it keeps proxies from closing a stream that waits for its turn.
PING = b": ping\n\n"
_PING_S = 15.0


async def merged(
    sources: Sequence[AsyncGenerator[T, None]], at_once: int | None = None
) -> AsyncGenerator[tuple[int, T] | None, None]:
    """What the sources give as they give it, each with its source's number; None for every 15 s of silence.

    Each source is one item ahead of what was taken, and no more. Closing this closes them all.

    :param at_once: so many are begun, and one more whenever one is at its end; all of them without
    :raises Exception: what any of them raises; it ends the others
    """
    numbered = iter(enumerate(sources))
    pending = {_asked(source): number for number, source in islice(numbered, at_once)}
    try:
        while pending:
            done, _ = await asyncio.wait(pending, timeout=_PING_S, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                yield None
            # In the sources' order, so that what is ready at once comes in the same order every time.
            for task in sorted(done, key=pending.__getitem__):
                number = pending.pop(task)
                if not (items := task.result()):
                    pending |= {_asked(source): later for later, source in islice(numbered, 1)}
                for item in items:
                    pending[_asked(sources[number])] = number
                    yield number, item
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for source in sources:
            await source.aclose()


def _asked(source: AsyncGenerator[T, None]) -> asyncio.Task[list[T]]:
    return asyncio.create_task(_next(source))


async def _next(source: AsyncGenerator[T, None]) -> list[T]:
    """The next item; none when the source is at its end."""
    async for item in source:
        return [item]
    return []
