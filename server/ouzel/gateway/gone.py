"""Noticing that a client has left, also while nothing is being sent to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.types import Receive

__all__ = ["ClientGone", "unless_gone"]

T = TypeVar("T")


class ClientGone(Exception):
    """Nobody is there for the reply."""


async def unless_gone(receive: Receive, work: Awaitable[T]) -> T:
    """The result of `work`; it is cancelled as soon as the client disconnects.

    :param receive: of a request whose body has been read
    :raises ClientGone: when the client left first
    """
    task, watch = asyncio.ensure_future(work), asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
