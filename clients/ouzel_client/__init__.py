"""Client library of an Ouzel server: asyncio, no torch.

async with connect("http://127.0.0.1:8080", voice="alloy") as session:
    async for event in session.speak("The river keeps its own time."):
        if isinstance(event, Audio):
            play(event.data)
    async for event in session.ask("What is the capital of France?"):
        if isinstance(event, Writing):
            show(event.text)
"""

from __future__ import annotations

from ouzel_client.errors import ClientError, OutputError, ServerError, TextError, UnreachableError
from ouzel_client.http import speak_over_http
from ouzel_client.session import Answered, Audio, Done, Event, Session, Started, Timing, Writing, connect

__all__ = [
    "Answered",
    "Audio",
    "ClientError",
    "Done",
    "Event",
    "OutputError",
    "ServerError",
    "Session",
    "Started",
    "TextError",
    "Timing",
    "UnreachableError",
    "Writing",
    "connect",
    "speak_over_http",
]
