"""Language stages as processes of their own: vLLM's state is global, and its warnings aren't ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from running_stage import RunningStage  # noqa: E402  # found through the line above
from tiny_llama import GLM, HERMES, PLAIN, write_llama  # noqa: E402


@pytest.fixture(scope="session")
def broken_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages that vLLM asks for, as pip leaves them: installed, and broken when they are imported."""
    folder = tmp_path_factory.mktemp("broken")
    for name in ("torchaudio", "torchcodec", "torchvision"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"raise RuntimeError('operator {name}::nms does not exist')\n")
    return folder


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory, broken_packages: Path) -> Iterator[RunningStage]:
    """A model that knows no tools, started where nothing that vLLM doesn't need works."""
    folder = write_llama(tmp_path_factory.mktemp("models") / "plain", PLAIN)
    with RunningStage(folder, python_path=[broken_packages]) as stage:
        yield stage


@pytest.fixture(scope="session")
def hermes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStage]:
    """A model that calls tools in JSON."""
    folder = write_llama(tmp_path_factory.mktemp("models") / "hermes", HERMES)
    with RunningStage(folder) as stage:
        yield stage


@pytest.fixture(scope="session")
def glm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStage]:
    """A model that thinks, and calls tools the way that Spark does."""
    folder = write_llama(tmp_path_factory.mktemp("models") / "glm", GLM)
    with RunningStage(folder) as stage:
        yield stage


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")
