"""Where language models lie: those that were pulled, any folder, and the local cache of the hub."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ouzel.config.settings import describe_nearest
from ouzel.errors import CheckpointError, ConfigError, NotFoundError
from ouzel.tools.pull import PULLABLE

__all__ = ["DEFAULT_MODEL", "find_model", "model_store", "pulled_models", "read_model_config"]

DEFAULT_MODEL = "smollm2"

#: what is taken of a hub's repository: settings, tokenizer, weights
_PATTERNS = ["*.json", "*.jinja", "*.model", "*.txt", "*.safetensors"]
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")


def model_store(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of the pulled models, in the user's cache."""
    cache = environ.get("XDG_CACHE_HOME", "")
    # The base directory specification says that a relative path is to be ignored.
    root = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
    return root / "ouzel" / "models"


def pulled_models() -> dict[str, Path]:
    """The folders of the pulled models, by name."""
    store = model_store()
    # A name with a dot before it is one that is being pulled.
    found = (path.parent for path in sorted(store.glob("*/config.json")))
    return {folder.name: folder for folder in found if not folder.name.startswith(".")}


def find_model(name: str) -> Path:
    """The folder of a pulled model, of `name` where it is a folder, or of a hub id, loaded where it isn't here.

    :raises NotFoundError: when it is none of these, or can't be loaded
    :raises CheckpointError: when the folder holds no model
    """
    if (pulled := pulled_models()).get(name):
        return pulled[name]
    folder = Path(name)
    if name and folder.is_dir():  # an empty path is the folder that one is in
        read_model_config(folder)
        return folder
    if name in PULLABLE:
        raise NotFoundError(f"model {name!r} isn't here yet: ouzel pull {name}", param="llm")
    if not _HUB_ID.fullmatch(name):
        known = {*pulled, *PULLABLE}
        raise NotFoundError(
            f"model {name!r} is neither pulled, nor a folder, nor a hub id; {describe_nearest(name, known)}",
            param="llm",
        )
    folder = _from_hub(name)
    read_model_config(folder)
    return folder


def read_model_config(folder: Path) -> dict[str, Any]:
    """The `config.json` of a model.

    :raises CheckpointError: when it is missing or torn, or doesn't say `model_type`
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path} is missing: {error.strerror}", param="llm") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is torn: {error}", param="llm") from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise CheckpointError(f"{path} has no model_type, so it is no language model's", param="llm")
    return config


def _from_hub(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise ConfigError(f"model {name!r} of a hub needs more: pip install 'ouzel[llm]'", param="llm") from error
    try:
        try:
            return Path(snapshot_download(name, allow_patterns=_PATTERNS, local_files_only=True))
        except LocalEntryNotFoundError:
            return Path(snapshot_download(name, allow_patterns=_PATTERNS))
    except LocalEntryNotFoundError as error:
        raise NotFoundError(
            f"model {name!r} is not whole in the local cache, and no hub is reached", param="llm"
        ) from error
    except HfHubHTTPError as error:
        raise NotFoundError(f"the hub doesn't give model {name!r}: {error}", param="llm") from error
