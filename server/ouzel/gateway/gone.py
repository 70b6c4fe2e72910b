"""Noticing that a client has left, or that the server is about to, also while nothing is being sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.types import Receive

from ouzel.errors import NotReadyError

__all__ = ["GRACE_S", "ClientGone", "unless_gone"]

T = TypeVar("T")

#: What requests over HTTP still have once the server was told to stop.
GRACE_S = 0.5


class ClientGone(Exception):
    """Nobody is there for the reply."""


async def unless_gone(receive: Receive, stopping: asyncio.Event, work: Awaitable[T]) -> T:
    """The result of `work`; it is cancelled as soon as the client disconnects, or soon after the server must stop.

    :param receive: of a request whose body has been read
    :raises ClientGone: when the client left first
    :raises NotReadyError: when the server stops first
    """
    task = asyncio.ensure_future(work)
    left, stopped = asyncio.ensure_future(_left(receive)), asyncio.ensure_future(_stopped(stopping))
    tasks = (task, left, stopped)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone if left.done() else NotReadyError("the server is stopping")
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def _stopped(stopping: asyncio.Event) -> None:
    await stopping.wait()
    await asyncio.sleep(GRACE_S)
