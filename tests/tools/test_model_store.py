from __future__ import annotations

import json
from pathlib import Path

import pytest
from huggingface_hub import constants

from ouzel.errors import CheckpointError, NotFoundError
from ouzel.tools.model_store import find_model, model_store, pulled_models, read_model_config


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def write_model(folder: Path, **config: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
    return folder


def test_the_store_is_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    assert model_store() == cache / "ouzel/models"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert model_store() == Path.home() / ".cache/ouzel/models"


def test_whole_models_are_pulled_ones() -> None:
    assert pulled_models() == {}
    tiny = write_model(model_store() / "tiny")
    write_model(model_store() / ".half.partial")
    (model_store() / "empty").mkdir()
    assert pulled_models() == {"tiny": tiny}


def test_a_pulled_name_a_folder_and_a_hub_id_are_found(cache: Path) -> None:
    pulled = write_model(model_store() / "tiny")
    folder = write_model(cache / "elsewhere/tiny")
    snapshot = write_model(cache / "hub/models--some--model/snapshots/0123")
    (cache / "hub/models--some--model/refs").mkdir()
    (cache / "hub/models--some--model/refs/main").write_text("0123")
    assert find_model("tiny") == pulled
    assert find_model(str(folder)) == folder
    assert find_model("some/model") == snapshot


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smollm2", "isn't here yet: ouzel pull smollm2"),
        ("smollm", "neither pulled, nor a folder, nor a hub id; did you mean 'smollm2'"),
        ("", "neither pulled, nor a folder"),
        ("no/such/folder", "neither pulled, nor a folder"),
        ("some/model", "not whole in the local cache, and no hub is reached"),
    ],
)
def test_what_is_not_there(name: str, message: str) -> None:
    with pytest.raises(NotFoundError, match=message):
        find_model(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "is missing"), ("{", "is torn"), ("[]", "has no model_type"), ('{"model_type": 1}', "has no model_type")],
)
def test_a_folder_that_is_no_models(tmp_path: Path, text: str | None, message: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    if text is not None:
        (folder / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=rf"config\.json {message}"):
        find_model(str(folder))
    with pytest.raises(CheckpointError):
        read_model_config(folder)
