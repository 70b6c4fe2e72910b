"""An OpenAI-compatible endpoint in small, on a real socket, whose answers a test writes down."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse


@dataclass
class Endpoint:
    """What it answers, and what it was asked."""

    url: str = ""
    models: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "far-away", "object": "model"}])
    #: events of an answer: a JSON object, a text for the line as it is, seconds to wait, or an error to break off with
    answer: Sequence[object] = ()
    #: in place of any answer
    refusal: Response | None = None
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    #: answers that are being sent, and those whose reader went away
    open: int = 0
    left: int = 0

    def refuse(self, status: int, message: str, **more: Any) -> None:
        self.refusal = JSONResponse({"error": {"message": message, "type": "error", **more}}, status)

    async def events(self) -> AsyncIterator[bytes]:
        self.open += 1
        try:
            for event in self.answer:
                match event:
                    case float() | int():
                        await asyncio.sleep(event)
                    case OSError():
                        raise event
                    case str():
                        yield f"data: {event}\n\n".encode()
                    case _:
                        yield f"data: {json.dumps(event)}\n\n".encode()
        except asyncio.CancelledError:
            self.left += 1
            raise
        finally:
            self.open -= 1


def app_of(endpoint: Endpoint) -> FastAPI:
    app = FastAPI()

    @app.get("/v1/models")
    async def models(request: Request) -> Response:
        endpoint.headers.append(dict(request.headers))
        return endpoint.refusal or JSONResponse({"object": "list", "data": endpoint.models})

    async def complete(request: Request) -> Response:
        endpoint.headers.append(dict(request.headers))
        endpoint.asked.append((request.url.path, await request.json()))
        return endpoint.refusal or StreamingResponse(endpoint.events(), media_type="text/event-stream")

    app.post("/v1/completions")(complete)
    app.post("/v1/chat/completions")(complete)
    return app


@asynccontextmanager
async def listening() -> AsyncIterator[Endpoint]:
    """An endpoint that serves until it is left."""
    endpoint = Endpoint()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        server = uvicorn.Server(uvicorn.Config(app_of(endpoint), log_config=None, lifespan="off"))
        serving = asyncio.create_task(server._serve([listener]))
        try:
            yield endpoint
        finally:
            server.should_exit = server.force_exit = True
            await serving
