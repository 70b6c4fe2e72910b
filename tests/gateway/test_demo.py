"""The page at `/` in headless Chromium, spoken to over its own debugging protocol."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_language import TEXT as ANSWER
from fake_language import FakeLanguage
from fake_speaker import frames_of
from running import running, until
from websockets.asyncio.client import ClientConnection, connect

from ouzel.errors import BusyError, EngineError
from ouzel.orchestrator.language import LanguageState

pytestmark = pytest.mark.browser

TEXT = "The river keeps its own time."


class Page:
    """One page of a browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = count(1)

    async def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (reply := json.loads(await self._socket.recv())).get("id") != number:
            continue
        assert "error" not in reply, reply
        return reply["result"]

    async def value(self, expression: str) -> Any:
        """What an expression gives in the page."""
        result = await self.command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, expression: str) -> None:
        while not await self.value(expression):  # noqa: ASYNC110 - the state is the browser's
            await asyncio.sleep(0.05)


@asynccontextmanager
async def page(url: str, profile: Path) -> AsyncGenerator[Page, None]:
    """Chromium with the page open, and a user who lets it make sound."""
    process = await asyncio.create_subprocess_exec(
        str(shutil.which("chromium")), "--headless=new", "--no-sandbox", "--disable-gpu", "--mute-audio",
        "--autoplay-policy=no-user-gesture-required", "--no-first-run", "--disable-dev-shm-usage",
        f"--user-data-dir={profile}", "--remote-debugging-port=0", url,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        while (found := re.search(rb"ws://([\d.:]+)/devtools", await process.stderr.readline())) is None:
            continue
        async with connect(f"ws://{found[1].decode()}/devtools/page/{await _target(found[1].decode())}") as socket:
            one = Page(socket)
            await one.until("document.readyState === 'complete' && document.getElementById('speak') !== null")
            yield one
    finally:
        process.kill()
        await process.communicate()


async def _target(address: str) -> str:
    """The page's number; the browser needs a moment to open it."""

    async with httpx.AsyncClient() as http:
        while True:
            targets = (await http.get(f"http://{address}/json")).json()
            if pages := [one["id"] for one in targets if one["type"] == "page" and one["url"].startswith("http")]:
                return str(pages[0])
            await asyncio.sleep(0.05)


@pytest.mark.timeout(120)
async def test_the_page_speaks_and_draws(tmp_path: Path) -> None:
    async with running() as server, page(f"http://127.0.0.1:{server.port}/", tmp_path) as one:
        await one.until("document.querySelectorAll('#voice option').length === 15")
        assert await one.value("document.getElementById('modes').hidden")  # there is no model to ask
        await one.value(f"document.getElementById('text').value = {json.dumps(TEXT)}")
        await one.value("document.getElementById('voice').value = 'robin'")
        await one.value("document.getElementById('speak').click()")
        await one.until("document.body.dataset.state === 'done'")
        assert await one.value("Number(document.body.dataset.frames)") == frames_of(TEXT)
        assert await one.value("document.getElementById('frame').textContent") != "–"
        assert await one.value("document.getElementById('gaps').textContent") == "none"
        assert [(asked.speaker, asked.text is not None) for asked in server.speaker.asked] == [("robin", True)]
        # Something in the colour of the talker's bars is on the canvas.
        await one.until(
            """(() => {
                const canvas = document.getElementById('budget');
                const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
                for (let i = 0; i < data.length; i += 4)
                    if (data[i] === 0x1f && data[i + 1] === 0x6f && data[i + 2] === 0x78) return true;
                return false;
            })()"""
        )

        server.speaker.gate.clear()
        await one.value("document.getElementById('speak').click()")
        await until(lambda: server.speaker.running == 1)
        await one.value("document.getElementById('speak').click()")
        await until(lambda: server.speaker.running == 0)
        server.speaker.gate.set()

        server.speaker.refusal = BusyError("16 requests wait already")
        await one.value("document.getElementById('speak').click()")
        await one.until("document.body.dataset.state === 'fault'")
        assert await one.value("document.getElementById('said').textContent") == "16 requests wait already"


@pytest.mark.timeout(120)
async def test_the_page_asks_the_model_and_speaks_its_answer(tmp_path: Path) -> None:
    language = FakeLanguage()
    ready = language.now
    language.now = replace(ready, state=LanguageState.LOADING)
    async with running(language=language) as server, page(f"http://127.0.0.1:{server.port}/", tmp_path) as one:
        await one.until("document.querySelectorAll('#voice option').length === 15")
        assert await one.value("document.getElementById('modes').hidden")
        language.now = ready
        await one.until("!document.getElementById('modes').hidden")
        await one.value("document.querySelector('[value=ask]').click()")
        assert await one.value("document.getElementById('speak').textContent") == "Ask"
        assert await one.value("document.getElementById('text').value") == "What is the capital of France?"
        await one.value("document.getElementById('speak').click()")
        await one.until("document.body.dataset.state === 'done'")
        assert await one.value("document.getElementById('answer').textContent") == ANSWER
        assert await one.value("Number(document.body.dataset.frames)") == sum(map(frames_of, server.speaker.pieces))
        assert "".join(server.speaker.pieces) == ANSWER

        language.gate.clear()
        await one.value("document.getElementById('speak').click()")
        await until(lambda: language.running == 1)
        await one.value("document.getElementById('speak').click()")
        await until(lambda: language.running == 0)
        language.gate.set()

        language.fault = (2, EngineError("the model died"))
        await one.value("document.getElementById('speak').click()")
        await one.until("document.body.dataset.state === 'fault'")
        assert await one.value("document.getElementById('said').textContent") == "the model died"

        await one.value("document.querySelector('[value=speak]').click()")
        assert str(await one.value("document.getElementById('text').value")).startswith("The river keeps its own time")


@pytest.mark.timeout(120)
async def test_the_page_asks_for_a_key_where_one_is_needed(tmp_path: Path) -> None:
    async with running(key="s3cret") as server, page(f"http://127.0.0.1:{server.port}/", tmp_path) as one:
        await one.until("!document.getElementById('lock').hidden")
        await one.value("document.getElementById('key').value = 's3cret'")
        await one.value("document.getElementById('key').dispatchEvent(new Event('change'))")
        await one.until("document.querySelectorAll('#voice option').length === 15")
        await one.value("document.getElementById('speak').click()")
        await one.until("document.body.dataset.state === 'done'")
        assert len(server.speaker.asked) == 1
