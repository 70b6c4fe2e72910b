from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parent))

from fake_language import FakeLanguage
from running import Running, running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _server() -> AsyncGenerator[Running, None]:
    async with running() as found:
        yield found


@pytest.fixture
def server(_server: Running) -> Running:
    """A server with the settings as they are by default, and a speaker as new."""
    _server.speaker.reset()
    return _server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _writer() -> AsyncGenerator[Running, None]:
    async with running(language=FakeLanguage()) as found:
        yield found


@pytest.fixture
def writer(_writer: Running) -> Running:
    """A server that also writes, with speaker and language model as new."""
    _writer.speaker.reset()
    _writer.language.reset()
    return _writer
