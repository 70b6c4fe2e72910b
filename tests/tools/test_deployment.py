from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from ouzel.config import Effective
from ouzel.errors import ConfigError, NotFoundError, RequestError
from ouzel.orchestrator.voice import VoiceFacts
from ouzel.tools import deployment
from ouzel.tools.deployment import Asked, LanguageWish, load_serving

VOICE = VoiceFacts.of("joe")
INSTALLED = {"vllm": object()}
NO_WISH = LanguageWish()


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(deployment, "find_spec", INSTALLED.get)
    return tmp_path / "ouzel/models"


def write_model(folder: Path, model_type: str = "llama") -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    return folder


def load(wish: LanguageWish = NO_WISH, *settings: str, file: Path | None = None) -> Effective:
    return load_serving(VOICE, Asked(file=file, settings=settings), wish)


def served(effective: Effective) -> tuple[str | None, str | None]:
    return effective.config.llm.model, effective.config.llm.url


def test_without_any_it_is_speech_only_and_says_how_to_get_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert served(load()) == (None, None)
    (line,) = caplog.messages
    assert "pip install 'ouzel[llm]', then ouzel pull smollm2" in line


def test_the_pulled_default_is_served(store: Path) -> None:
    folder = write_model(store / "smollm2")
    effective = load()
    assert served(effective) == (str(folder), None)
    assert effective.sources["llm.prefill_tokens"].startswith("deploy/edge/llama.yaml:")


def test_without_vllm_the_default_is_left_out(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(store / "smollm2")
    monkeypatch.setattr(deployment, "find_spec", {}.get)
    assert served(load()) == (None, None)
    with pytest.raises(ConfigError, match=r"needs vLLM: pip install 'ouzel\[llm\]', or --no-llm"):
        load(LanguageWish(model="smollm2"))
    assert served(load(LanguageWish(model="smollm2"), "llm.factory=fakes:language"))[0] is not None


@pytest.mark.parametrize(("model_type", "kind"), [("llama", "llama"), ("qwen2", "llama"), ("spark2_5", "spark2_5")])
def test_a_models_kind_chooses_its_file_of_the_profile(tmp_path: Path, model_type: str, kind: str) -> None:
    folder = write_model(tmp_path / "model", model_type)
    effective = load(LanguageWish(model=str(folder)))
    assert served(effective) == (str(folder), None)
    assert effective.sources["llm.prefill_tokens"].startswith(f"deploy/edge/{kind}.yaml:")


def test_none_beats_everything(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(store / "smollm2")
    monkeypatch.setenv("OUZEL_LLM__URL", "http://localhost:1/v1")
    assert served(load(LanguageWish(none=True), "llm.model=/model")) == (None, None)


def test_an_endpoint_takes_the_place_of_a_model(store: Path) -> None:
    write_model(store / "smollm2")
    url = "http://localhost:1/v1"
    assert served(load(LanguageWish(url=url), "llm.model=/model")) == (None, url)
    assert served(load(NO_WISH, f"llm.url={url}")) == (None, url)


def test_a_flag_beats_the_settings(store: Path, tmp_path: Path) -> None:
    write_model(store / "smollm2")
    folder = write_model(tmp_path / "model")
    settings = ("llm.model=/elsewhere", "llm.url=http://localhost:1/v1")
    assert served(load(LanguageWish(model=str(folder)), *settings)) == (str(folder), None)


def test_the_settings_beat_the_default(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(store / "smollm2")
    tiny = write_model(store / "tiny", "spark2_5")
    file = tmp_path / "own.yaml"
    file.write_text("base_config: profile:edge\nllm:\n  model: null\n")
    assert served(load(file=file)) == (None, None)
    monkeypatch.setenv("OUZEL_LLM__MODEL", "tiny")
    effective = load(file=file)
    assert served(effective) == (str(tiny), None)
    assert effective.sources["llm.prefill_tokens"].startswith("deploy/edge/spark2_5.yaml:")


def test_a_missing_folder_of_the_settings_is_the_stages_to_tell() -> None:
    assert served(load(NO_WISH, "llm.model=/no/such/folder")) == ("/no/such/folder", None)


def test_a_missing_folder_of_a_flag_is_an_error() -> None:
    with pytest.raises(NotFoundError, match="model '/no/such/folder' is neither pulled, nor a folder"):
        load(LanguageWish(model="/no/such/folder"))


def test_one_wish_at_most() -> None:
    with pytest.raises(RequestError, match="--llm, --llm-url and --no-llm exclude each other"):
        load(LanguageWish(model="smollm2", none=True))


def test_an_empty_wish_is_an_error() -> None:
    with pytest.raises(NotFoundError, match="model '' is neither pulled"):
        load(LanguageWish(model=""))
    with pytest.raises(RequestError, match="--llm-url is empty"):
        load(LanguageWish(url=""))


@pytest.mark.parametrize("missing", ["compiler", "headers"])
def test_without_a_compiler_nothing_is_compiled(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    write_model(store / "smollm2")
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(deployment.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(deployment.sysconfig, "get_path", lambda _: str(tmp_path))
    assert load().config.llm.eager is False
    if missing == "compiler":
        monkeypatch.setattr(deployment.shutil, "which", lambda _: None)
    else:
        (tmp_path / "Python.h").unlink()
    assert (load().config.llm.eager, load().sources["llm.eager"]) == (True, "derived from the device")
    assert load(NO_WISH, "llm.eager=false").config.llm.eager is False
    assert load(LanguageWish(none=True)).config.llm.eager is False


def test_a_language_model_has_its_share_of_the_threads(store: Path) -> None:
    assert load(NO_WISH).sources["llm.threads"] == "default"
    write_model(store / "smollm2")
    assert load(NO_WISH).sources["llm.threads"] == "derived from the device"
