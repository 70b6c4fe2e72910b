from __future__ import annotations

import os
import shutil

import pytest

#: marker → the program that its tests start
PROGRAMS = {"browser": "chromium", "ffprobe": "ffprobe", "node": "node"}


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, program in PROGRAMS.items():
        if item.get_closest_marker(marker) and shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With OUZEL_NO_SKIP=1 a skip fails the run: a machine that should have everything lacks something."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("OUZEL_NO_SKIP") == "1" and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
