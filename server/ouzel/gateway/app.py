"""The server's routes, put together."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.resources import files
from typing import NamedTuple

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import WebSocketRoute

from ouzel import __version__
from ouzel.config.schema import DeployConfig
from ouzel.errors import ConfigError, NotFoundError, NotReadyError, OuzelError
from ouzel.gateway.answer import AnswerDesk
from ouzel.gateway.api_key import ApiKey
from ouzel.gateway.chat_rest import ChatEndpoint
from ouzel.gateway.doors import CountedDoor, KeyDoor, MethodDoor, OriginDoor, RequestIdDoor
from ouzel.gateway.gone import ClientGone
from ouzel.gateway.language import LanguageModel
from ouzel.gateway.metrics import Metrics
from ouzel.gateway.prometheus import CONTENT_TYPE
from ouzel.gateway.replies import Json, error_reply, http_error_reply
from ouzel.gateway.rest import SpeechEndpoint
from ouzel.gateway.schemas import CHAT_SCHEMA, COMPLETION_SCHEMA, SPEECH_SCHEMA
from ouzel.gateway.sockets import SocketEndpoint
from ouzel.gateway.speaker import Speaker
from ouzel.gateway.speech import Desk
from ouzel.gateway.text_rest import TextEndpoint
from ouzel.gateway.text_wishes import CompletionRequest
from ouzel.gateway.timing import StepLog
from ouzel.text.markdown import spoken_markdown

__all__ = ["create_app"]

_GONE = 499  # nginx's word for a client that has left; nobody reads it
_BUILT = int(time.time())


def create_app(
    speaker: Speaker,
    config: DeployConfig,
    *,
    key: ApiKey | None = None,
    stopping: asyncio.Event | None = None,
    page: bool = True,
    language: LanguageModel | None = None,
) -> FastAPI:
    """The server around a speaker and a language model, which may still be loading.

    :param key: what callers of `/v1` must know; None lets everyone in
    :param page: whether a browser gets the demo page
    :param language: None where no text is served
    :param stopping: set when the server is about to stop, so that sockets are closed while they still can be
    :raises ConfigError: when text is to be served and the `openai` package isn't installed
    """
    metrics = Metrics(language)
    desk = Desk(speaker, metrics)
    steps = StepLog()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        yield
        desk.close()

    app = FastAPI(
        title="Ouzel", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    stopping = stopping or asyncio.Event()
    answers = AnswerDesk(language, metrics.language) if language and metrics.language else None
    _add_speech(app, desk, answers, config, steps, stopping)
    _add_text(app, _text_endpoints(desk, answers, config, stopping))
    _add_listings(app, desk, language, steps)
    _add_condition(app, speaker, language, metrics)
    _add_front(app, page, writes=language is not None)
    _add_errors(app)
    # The last one added is the first to be passed.
    app.add_middleware(CountedDoor, most=config.gateway.max_sockets, metrics=metrics)
    app.add_middleware(KeyDoor, key=key)
    app.add_middleware(MethodDoor)
    app.add_middleware(OriginDoor, origins=config.gateway.cors_origins)
    app.add_middleware(RequestIdDoor)
    return app


def _add_speech(
    app: FastAPI,
    desk: Desk,
    answers: AnswerDesk | None,
    config: DeployConfig,
    steps: StepLog,
    stopping: asyncio.Event,
) -> None:
    speech = SpeechEndpoint(desk, config, steps, stopping)
    socket = SocketEndpoint(desk, answers, config, stopping)

    @app.post("/v1/audio/speech", response_class=Response, openapi_extra=SPEECH_SCHEMA)
    async def create_speech(request: Request) -> Response:
        """Speak a text, in OpenAI's form."""
        return await speech(request)

    app.router.routes.append(WebSocketRoute("/v1/audio/speech/stream", socket.__call__))


Endpoint = Callable[[Request], Awaitable[Response]]


class _TextEndpoints(NamedTuple):
    completions: Endpoint
    chat: Endpoint


def _text_endpoints(
    desk: Desk, answers: AnswerDesk | None, config: DeployConfig, stopping: asyncio.Event
) -> _TextEndpoints:
    if answers is None:
        return _TextEndpoints(_no_language, _no_language)
    try:  # most of a second, which a server that only speaks needn't spend
        from ouzel.gateway.chat_form import ChatForm
        from ouzel.gateway.completion_form import CompletionForm

        spoken_markdown("")
    except ModuleNotFoundError as error:
        lacks = "its answers need the openai package: pip install 'ouzel[llm]' or 'ouzel[remote]'"
        raise ConfigError(f"a language model is to be served, and {lacks}", param="llm") from error

    return _TextEndpoints(
        TextEndpoint(answers, CompletionRequest, CompletionForm, config.gateway, stopping),
        ChatEndpoint(desk, answers, ChatForm, config, stopping),
    )


async def _no_language(_: Request) -> Response:
    raise NotFoundError("no language model is served here", param="model")


def _add_text(app: FastAPI, endpoints: _TextEndpoints) -> None:
    @app.post("/v1/completions", response_class=Response, openapi_extra=COMPLETION_SCHEMA)
    async def create_completion(request: Request) -> Response:
        """Go on with a text, in OpenAI's form."""
        return await endpoints.completions(request)

    @app.post("/v1/chat/completions", response_class=Response, openapi_extra=CHAT_SCHEMA)
    async def create_chat_completion(request: Request) -> Response:
        """Answer a conversation, in OpenAI's form."""
        return await endpoints.chat(request)


def _listed(name: str, context: int = 0) -> dict[str, object]:
    said = {"max_model_len": context} if context else {}  # vLLM's word, by which another server learns it
    return {"id": name, "object": "model", "created": _BUILT, "owned_by": "ouzel", **said}


def _add_listings(app: FastAPI, desk: Desk, language: LanguageModel | None, steps: StepLog) -> None:
    def models() -> dict[str, dict[str, object]]:
        """By name, the one that writes first: whoever takes the first of a list wants to chat."""
        now = language.status() if language else None
        listed = [_listed(now.model, now.facts.context if now.facts else 0)] if now and now.model else []
        return {str(one["id"]): one for one in (*listed, _listed(desk.speaker.model))}

    @app.get("/v1/models")
    async def list_models() -> Json:
        """The models that are served."""
        return Json({"object": "list", "data": list(models().values())})

    @app.get("/v1/models/{name:path}")
    async def get_model(name: str) -> Json:
        """One of them."""
        served = models()
        if name not in served:
            raise NotFoundError(f"model: {name!r} is not loaded; {' and '.join(map(repr, served))} are", param="model")
        return Json(served[name])

    @app.get("/v1/audio/voices")
    async def list_voices() -> Json:
        """The voices, OpenAI's names among them."""
        desk.check_ready()
        return Json(desk.voices.listing())

    @app.get("/v1/audio/steps/{request_id}")
    async def get_steps(request_id: str) -> Json:
        """Where the milliseconds of a request's chunks went; the latest requests are kept."""
        if (record := steps.find(request_id)) is None:
            raise NotFoundError(f"request {request_id!r} is not among the latest ones", param="request_id")
        return Json({"object": "list", "request_id": request_id, "data": [timing.to_json() for timing in record]})


def _add_condition(app: FastAPI, speaker: Speaker, language: LanguageModel | None, metrics: Metrics) -> None:
    @app.get("/health")
    async def health() -> Json:
        """Whether the server's loop is alive, and what its stages do."""
        now = speaker.health()
        text = {} if language is None else {"language": language.status().to_json()}
        return Json({"status": "ok", "speech": now.state.value, "detail": now.detail, **now.facts, **text})

    @app.get("/ready")
    async def ready() -> Json:
        """Whether a request for speech makes sense now; `/health` says it of text."""
        now = speaker.health()
        if not now.serving:
            raise NotReadyError(f"Loading model: {now.detail}" if now.detail else "Loading model")
        return Json({"status": "ready"})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics_page() -> Response:
        """Prometheus's text format."""
        metrics.loaded = {(speaker.model,): float(speaker.health().serving)}
        return Response(metrics.page(), headers={"Content-Type": CONTENT_TYPE})

    @app.get("/version")
    async def versions() -> Json:
        """What runs here."""
        return Json({"version": __version__, "python": platform.python_version(), "torch": version("torch")})


def _add_front(app: FastAPI, page: bool, *, writes: bool) -> None:
    line = f"Ouzel {__version__} speaks at POST /v1/audio/speech"
    line += " and writes at POST /v1/chat/completions" if writes else ""
    html = files("ouzel.gateway").joinpath("demo.html").read_text(encoding="utf-8") if page else None

    @app.get("/", include_in_schema=False)
    async def front(request: Request) -> Response:
        if html is not None and "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(html, headers={"Cache-Control": "no-cache", "Vary": "Accept"})
        return PlainTextResponse(f"{line}\n", headers={"Vary": "Accept"})


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(OuzelError)
    async def ours(_: Request, error: OuzelError) -> Response:
        return error_reply(error)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        said = {404: f"there is nothing at {request.url.path}", 405: f"{request.method} isn't possible here"}
        return http_error_reply(error.status_code, said.get(error.status_code, str(error.detail)), error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return http_error_reply(400, str(error.errors()[0]["msg"]))

    @app.exception_handler(ClientGone)
    async def gone(_: Request, error: ClientGone) -> Response:
        return Response(status_code=_GONE)

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, error: Exception) -> Response:
        return http_error_reply(500, "a fault inside the server; its log says more")
