from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)


@pytest.fixture
def fakes_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the processes of stages import `fake_cores`."""
    monkeypatch.setenv("PYTHONPATH", HERE)
