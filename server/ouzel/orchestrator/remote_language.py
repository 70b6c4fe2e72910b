"""A language model behind an OpenAI-compatible endpoint, in place of the stage."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ouzel.config import LlmConfig
from ouzel.errors import ConfigError, EngineError, NotReadyError, OuzelError
from ouzel.orchestrator.generation import Generation
from ouzel.orchestrator.language import LanguageState, LanguageStatus
from ouzel.orchestrator.language_desk import LanguageDesk
from ouzel.orchestrator.slots import Slots
from ouzel.stages.backoff import Backoff
from ouzel.stages.language import LanguageFacts, LanguageRequest, TextDelta
from ouzel.stages.messages import Abort, Generate
from ouzel.stats.snapshot import Snapshot
from ouzel.stats.timeline import Span

if TYPE_CHECKING:
    import openai

__all__ = ["RemoteLanguage"]

log = logging.getLogger(__name__)

#: A request whose endpoint says nothing for this long ends with an error. While one waits in a queue there, it doesn't.
_PATIENCE_S = 120.0
_CONNECT_S = 5.0
#: Pauses between the attempts to learn which model it serves.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


class RemoteLanguage:
    """Passes requests on to an endpoint, and its text back."""

    def __init__(
        self,
        config: LlmConfig,
        *,
        api_key: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """
        :param config: with `url`
        :param api_key: of the endpoint, where it wants one
        :raises ConfigError: when the url is none, or the client isn't installed
        """
        if config.url is None or not config.url.startswith(("http://", "https://")):
            raise ConfigError(f"llm.url is {config.url!r}; give http://…/v1", param="llm.url")
        if find_spec("openai") is None:
            raise ConfigError("llm.url needs a client that isn't installed: pip install ouzel[remote]", param="llm.url")
        self._url = config.url
        # As errors show it: what stands before an @ is a secret.
        parts = urlsplit(config.url)
        self._where = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        self._api_key = api_key
        self._name = config.url_model
        self._facts = None if self._name is None else _facts(self._name)
        self._reason = ""
        self._running = False
        self._sleep = sleep
        self._desk = LanguageDesk(Slots(config.max_num_seqs, config.max_waiting), _PATIENCE_S, self._carry_out, clock)
        self._client: asyncio.Task[openai.AsyncOpenAI] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._relays: dict[int, asyncio.Task[None]] = {}  # by epoch

    @property
    def spans(self) -> tuple[Span, ...]:
        """Nothing of it starts here."""
        return ()

    async def start(self) -> None:
        """Get ready to call; which model is served is asked meanwhile."""
        # The import takes a second, which nobody who only speaks should wait for.
        self._client = asyncio.create_task(asyncio.to_thread(_client, self._url, self._api_key), name="load client")
        self._running = True
        self._tasks = [
            asyncio.create_task(self._introduce(), name="ask for the model"),
            asyncio.create_task(self._desk.watch(), name="language deadlines"),
        ]

    async def stop(self) -> None:
        """End what is open, and hang up."""
        self._running = False
        self._desk.close()
        tasks = [*self._tasks, *self._relays.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        client, self._client = self._client, None
        if client is not None:
            await (await client).close()

    def generate(self, request: LanguageRequest, request_id: str) -> Generation:
        """As `Language.generate` says; what the endpoint answers instead of text is raised by the iteration."""
        if not self._running:
            raise NotReadyError("the language model is stopped")
        return self._desk.open(request, request_id)

    def abort(self, request_id: str) -> bool:
        """As `Language.abort` says."""
        return self._desk.abort(request_id)

    def status(self) -> LanguageStatus:
        """Its condition, without waiting."""
        state = LanguageState.STOPPED
        if self._running:
            state = LanguageState.LOADING if self._name is None else LanguageState.REMOTE
        return LanguageStatus(
            state=state,
            model=self._name or "",
            reason=self._reason,
            facts=self._facts,
            open_requests=self._desk.taken,
            most_requests=self._desk.bound,
        )

    async def snapshots(self) -> list[Snapshot]:
        """None: nothing is computed here."""
        return []

    async def _introduce(self) -> None:
        """Learn which model the endpoint serves, however long it takes to be there.

        Where the settings say it, one attempt tells whether the endpoint is there, and what it says of the model.
        """
        backoff, told = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S), ""
        while True:
            try:
                await self._ask()
                return
            except OuzelError as error:
                if str(error) != told:
                    log.warning("%s", told := str(error))
            if self._name is not None:
                return
            await self._sleep(backoff.down())

    async def _ask(self) -> str:
        """The model's name.

        :raises OuzelError: when the endpoint doesn't say, and the settings don't either.
        """
        client = await self._connected()
        import openai

        from ouzel.orchestrator.remote_errors import error_of

        try:
            listed = (await client.models.list()).data or []
        except openai.OpenAIError as error:
            fault = error_of(error, self._where)
            self._reason = str(fault)
            raise fault from error
        if self._name is None and not listed:
            raise EngineError(f"the language endpoint {self._where} lists no model; set llm.url_model")
        self._name = self._name or listed[0].id
        self._reason = ""
        # vLLM says how long its context is; OpenAI's own type doesn't have it.
        context = next((getattr(one, "max_model_len", None) for one in listed if one.id == self._name), None)
        self._facts = _facts(self._name, context)
        return self._name

    async def _connected(self) -> openai.AsyncOpenAI:
        assert self._client is not None
        # One that is aborted meanwhile must not take it away from the others.
        return await asyncio.shield(self._client)

    def _carry_out(self, command: Generate | Abort) -> None:
        match command:
            case Generate(request):
                task = asyncio.create_task(self._relay(request), name=f"relay {request.epoch}")
                self._relays[request.epoch] = task
                task.add_done_callback(lambda task: self._over(request, task))
            case Abort(_, epoch):
                # Cancelled, it closes its stream, and the endpoint sees that nobody listens.
                if (relay := self._relays.get(epoch)) is not None:
                    relay.cancel()

    def _over(self, request: LanguageRequest, relay: asyncio.Task[None]) -> None:
        del self._relays[request.epoch]
        if relay.cancelled() or (error := relay.exception()) is None:
            return
        fault = (
            error if isinstance(error, OuzelError) else EngineError(f"the language endpoint {self._where}: {error!r}")
        )
        self._desk.refused(request.slot, request.epoch, fault)

    async def _relay(self, request: LanguageRequest) -> None:
        async for delta in self._answer(request):
            self._desk.heard(delta)

    async def _answer(self, request: LanguageRequest) -> AsyncIterator[TextDelta]:
        client, begun = await self._connected(), False
        import openai

        from ouzel.orchestrator.remote_errors import error_of
        from ouzel.orchestrator.remote_wire import Reading, call_of

        call = call_of(request, self._name or await self._ask())
        completions = client.completions if request.messages is None else client.chat.completions
        reading = Reading(request)
        try:
            async with await completions.create(**call) as stream:
                begun = True
                async for chunk in stream:
                    for delta in reading.deltas(chunk):
                        yield delta
            self._reason = ""
            yield reading.last()
        except openai.OpenAIError as error:
            fault = error_of(error, self._where, begun=begun)
            self._reason = str(fault) if isinstance(fault, NotReadyError) else self._reason
            raise fault from error


def _facts(model: str, context: int | None = None) -> LanguageFacts:
    """What tools and reasoning need is the endpoint's business; it says so where it can't."""
    return LanguageFacts(model=model, context=context or 0, tools=True, reasoning=True)


def _client(url: str, api_key: str | None) -> openai.AsyncOpenAI:
    """Importing the package takes a while, so this is called in a thread.

    By itself it would send what OpenAI's own variables say, which is nothing for an endpoint elsewhere.
    """
    import openai

    # Loaded here as well, so that the first request doesn't.
    from ouzel.orchestrator import remote_errors, remote_wire  # noqa: F401

    unsent = dict.fromkeys(["OpenAI-Organization", "OpenAI-Project"], openai.omit)
    return openai.AsyncOpenAI(
        base_url=url,
        api_key=api_key or "none",  # it must send one
        max_retries=0,
        timeout=openai.Timeout(None, connect=_CONNECT_S),
        default_headers=unsent,  # type: ignore[arg-type]  # a header may be left out, as one of a single call may
    )
