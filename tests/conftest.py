from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is, and nothing of the code.
settings.register_profile("ouzel", deadline=None)
settings.load_profile("ouzel")

# The recipes in tests/oracle are shared with scripts that run in another environment; tests import them from there.
sys.path.insert(0, str(Path(__file__).parent / "oracle"))

#: marker → the program that its tests start
PROGRAMS = {"browser": "chromium", "ffprobe": "ffprobe", "node": "node"}


@pytest.fixture(scope="session")
def tiny_voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole voice in small, for reading only."""
    from tiny_voice import write_voice

    return write_voice(tmp_path_factory.mktemp("voices") / "tiny")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, program in PROGRAMS.items():
        if item.get_closest_marker(marker) and shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if item.get_closest_marker("llm") and importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With OUZEL_NO_SKIP=1 a skip fails the run: a machine that should have everything lacks something."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("OUZEL_NO_SKIP") == "1" and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
