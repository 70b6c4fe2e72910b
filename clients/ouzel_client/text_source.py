"""Text from a pipe, piece by piece as it is written there."""

from __future__ import annotations

import asyncio
import codecs
import threading
from collections.abc import AsyncIterator, Callable

from ouzel_client.errors import TextError

__all__ = ["text_pieces"]

_PIECE = 4096


async def text_pieces(read: Callable[[int], bytes]) -> AsyncIterator[str]:
    """The text of a blocking reader of bytes, which gives nothing at its end.

    :raises TextError: when the bytes are no UTF-8; the message names the first that isn't
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    place = 0
    async for data in _chunks(read):
        pending = len(decoder.getstate()[0])
        try:
            piece = decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            where = place - pending + error.start
            raise TextError(
                f"the text is not UTF-8: byte 0x{error.object[error.start]:02X} at offset {where}; "
                "convert it first, for example with `iconv -f latin1 -t utf-8`"
            ) from error
        place += len(data)
        if piece:
            yield piece


async def _chunks(read: Callable[[int], bytes]) -> AsyncIterator[bytes]:
    """What the reader gives, the empty end included; a thread of its own may be left waiting in it."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()

    def pump() -> None:
        while True:
            data = read(_PIECE)
            try:
                loop.call_soon_threadsafe(chunks.put_nowait, data)
            except RuntimeError:
                return  # the loop has ended, and with it whoever wanted the text
            if not data:
                return

    threading.Thread(target=pump, name="text", daemon=True).start()
    while True:
        data = await chunks.get()
        yield data
        if not data:
            return
