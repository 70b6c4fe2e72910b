"""The settings of a deployment as a command line means them, with the language model that it names or finds."""

from __future__ import annotations

import logging
import os
import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ouzel.config import DeployConfig, Effective, LlmConfig, load_config
from ouzel.errors import CheckpointError, ConfigError, RequestError
from ouzel.orchestrator.voice import VoiceFacts
from ouzel.tools.model_store import DEFAULT_MODEL, find_model, pulled_models, read_model_config

__all__ = ["Asked", "LanguageWish", "load_deployment", "load_serving", "model_profile"]

log = logging.getLogger(__name__)

_NOTHING = "null"  # as a setting's text


class Asked(NamedTuple):
    """Where settings come from, beside the environment."""

    profile: str | None = None
    file: Path | None = None
    #: NAME=VALUE each
    settings: Sequence[str] = ()


class LanguageWish(NamedTuple):
    """Which language model is wished for; without any of these, what the settings say, or the default where it is."""

    model: str | None = None
    url: str | None = None
    none: bool = False


def load_deployment(
    voice: VoiceFacts, asked: Asked, *, kinds: Sequence[str] = (), flags: Mapping[str, str] | None = None
) -> Effective:
    """The settings for a voice.

    :param kinds: the files of a profile beside the voice's
    :raises ConfigError, RequestError: when a setting is wrong, or no NAME=VALUE
    """
    return load_config(
        ("qwen3_tts", *kinds),
        deploy_profile=asked.profile,
        deploy_config=asked.file,
        flags={**dict(map(_parse_setting, asked.settings)), **(flags or {})},
        derive=lambda config: {**voice.derive(config), **_derive_language(config)},
    )


def load_serving(voice: VoiceFacts, asked: Asked, wish: LanguageWish) -> Effective:
    """The settings for a voice and a language model: `llm.model` is a folder, `llm.url` an endpoint, or both are null.

    :raises NotFoundError, CheckpointError: when the model that is wished for isn't there
    :raises RequestError: when the wishes exclude each other, or one is empty
    :raises ConfigError: when a setting is wrong, or vLLM is missing
    """
    if sum((wish.model is not None, wish.url is not None, wish.none)) > 1:
        raise RequestError("--llm, --llm-url and --no-llm exclude each other: give one of them", param="llm")
    if wish.none:
        return load_deployment(voice, asked, flags={"llm.model": _NOTHING, "llm.url": _NOTHING})
    if wish.url is not None:
        if not wish.url:
            raise RequestError("--llm-url is empty; give http://…/v1", param="llm-url")
        return load_deployment(voice, asked, flags={"llm.model": _NOTHING, "llm.url": wish.url})
    said = load_deployment(voice, asked)
    if wish.model is None and said.config.llm.url is not None:
        return said
    folder = find_model(wish.model) if wish.model is not None else _said_or_default(said)
    if folder is None:
        return said
    if said.config.llm.factory == LlmConfig().factory and find_spec("vllm") is None:
        raise ConfigError("a language model needs vLLM: pip install 'ouzel[llm]', or --no-llm", param="llm.model")
    flags = {"llm.model": str(folder), "llm.url": _NOTHING}
    return load_deployment(voice, asked, kinds=(model_profile(folder),), flags=flags)


def _said_or_default(said: Effective) -> Path | None:
    pulled = pulled_models()
    model = said.config.llm.model
    if model is not None:
        return pulled.get(model, Path(model))
    if said.sources["llm.model"] != "default":
        return None
    if DEFAULT_MODEL in pulled and find_spec("vllm") is not None:
        return pulled[DEFAULT_MODEL]
    log.info("speech only; for a language model: pip install 'ouzel[llm]', then ouzel pull %s", DEFAULT_MODEL)
    return None


def _derive_language(config: DeployConfig) -> dict[str, object]:
    """What this device decides for a language model: torch's compiler needs one for C++, and Python's headers."""
    if config.llm.model is None or config.llm.eager:
        return {}
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) and (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return {}
    log.info("the language model runs uncompiled, which is slower: %s or Python's headers are missing", compiler)
    return {"llm.eager": True}


def model_profile(folder: Path) -> str:
    """The file of a profile that suits a model."""
    try:
        model_type = read_model_config(folder)["model_type"]
    except CheckpointError:
        # The stage says what is missing, and speech is served beside it.
        return "llama"
    return "spark2_5" if model_type == "spark2_5" else "llama"


def _parse_setting(setting: str) -> tuple[str, str]:
    name, given, value = setting.partition("=")
    if not given:
        raise RequestError(f"--set {setting!r}: expected NAME=VALUE", param="set")
    return name.strip(), value.strip()
