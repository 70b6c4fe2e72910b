"""A server that only speaks needs no `openai` package, and one that writes asks for it at its start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

START = """
import sys
sys.modules["openai"] = None
sys.path.insert(0, {here!r})
from fake_language import FakeLanguage
from fake_speaker import FakeSpeaker
from ouzel.config.schema import DeployConfig
from ouzel.gateway.app import create_app
create_app(FakeSpeaker(), DeployConfig(), language={language})
print("started")
"""


@pytest.mark.parametrize(("language", "starts"), [("None", True), ("FakeLanguage()", False)])
def test_only_a_server_that_writes_needs_openai(language: str, starts: bool) -> None:
    code = START.format(here=str(Path(__file__).parent), language=language)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    asked = "ConfigError: a language model is to be served, and its answers need the openai package" in done.stderr
    assert (done.stdout == "started\n", asked) == (starts, not starts)
