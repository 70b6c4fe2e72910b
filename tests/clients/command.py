"""`ouzel-client` in a process of its own, as a shell would start it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from running import Running


async def client(server: Running | None, *arguments: str, stdin: bytes | None = None) -> tuple[int, str]:
    """Its exit code and what it said."""
    url = f"http://127.0.0.1:{server.port if server else 1}"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ouzel_client.cli", *arguments,
        env={**os.environ, "OUZEL_URL": url},
        stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate(stdin)
    assert process.returncode is not None
    return process.returncode, said.decode()
