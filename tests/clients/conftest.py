from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest_asyncio

# The real server around the fake speaker is that of the gateway's tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "gateway"))
sys.path.insert(0, str(Path(__file__).parent))

from running import Running, running


@pytest_asyncio.fixture
async def server() -> AsyncGenerator[Running, None]:
    async with running() as found:
        yield found
