from __future__ import annotations

from pathlib import Path

import pytest

from ouzel import voices
from ouzel.errors import NotFoundError


@pytest.fixture
def carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that carries the voices anna and ben, and a folder that is none."""
    for name in ("anna", "ben"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    (tmp_path / "__pycache__").mkdir()
    monkeypatch.setattr(voices.resources, "files", lambda package: tmp_path)
    return tmp_path


def test_the_carried_voices_are_the_folders_with_a_config(carried: Path) -> None:
    assert voices.carried_voices() == {"anna": carried / "anna", "ben": carried / "ben"}


def test_a_voice_is_found_by_name_or_by_folder(carried: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("mine")
    assert voices.find_voice("ben") == carried / "ben"
    assert voices.find_voice(str(other)) == other


def test_an_unknown_voice_names_the_nearest(carried: Path) -> None:
    with pytest.raises(NotFoundError, match="did you mean 'anna'") as caught:
        voices.find_voice("ana")
    assert caught.value.param == "voice"
