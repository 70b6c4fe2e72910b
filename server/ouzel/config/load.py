"""The effective settings of a deployment, from defaults to flags, each with where it came from.

Later beats earlier: defaults, the profile's files, what the device's probe derives, the user's own file, environment,
flags. So a device corrects a profile, and nobody corrects the user.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ouzel.config.files import DeployFile, Sourced, config_files, deploy_root, profile_files
from ouzel.config.schema import DeployConfig
from ouzel.config.settings import SECTIONS, SETTINGS, build, unknown_setting
from ouzel.errors import ConfigError

__all__ = ["DEFAULT_PROFILE", "LLM_KEY_VARIABLE", "Effective", "load_config"]

DEFAULT_PROFILE = "edge"

_PREFIX = "OUZEL_"
#: The key of the endpoint `llm.url`; a secret is no setting, so that `config show` never prints it.
LLM_KEY_VARIABLE = "OUZEL_LLM_API_KEY"


@dataclass(frozen=True, slots=True)
class Effective:
    """A deployment's settings, and the source of each one by its dotted name."""

    config: DeployConfig
    sources: Mapping[str, str]


def load_config(
    model_types: Sequence[str] = (),
    *,
    deploy_profile: str | None = None,
    deploy_config: str | Path | None = None,
    flags: Mapping[str, object] | None = None,
    derive: Callable[[DeployConfig], Mapping[str, object]] | None = None,
    environ: Mapping[str, str] = os.environ,
    root: Path | None = None,
) -> Effective:
    """Load a named profile or a config file, never both, and lay environment and flags over it.

    :param model_types: the models that will be served; each has a file in a profile.
    :param flags: settings by dotted name; a text is parsed as in the environment, None means not given.
    :param derive: what the device decides, given all that is said; left out where `orchestrator.derive` is false.
    :param root: folder of the profiles, for tests.
    :raises ConfigError: on an unknown profile, file, setting or value, each with the nearest valid one.
    """
    root = deploy_root() if root is None else root.resolve()
    files = _chosen_files(model_types, deploy_profile, deploy_config, environ, root)
    profile = [file.settings for file in files if file.path.is_relative_to(root)]
    own = [file.settings for file in files if not file.path.is_relative_to(root)]
    explicit = [*own, _from_environment(environ), _from_flags(flags or {})]
    values, sources = _merge([*profile, *explicit])
    if derive is not None and values["orchestrator.derive"]:
        derived = derive(build(values, sources))
        device = {key: Sourced(value, "derived from the device") for key, value in derived.items()}
        values, sources = _merge([*profile, device, *explicit])
    return Effective(build(values, sources), sources)


def _chosen_files(
    model_types: Sequence[str],
    profile: str | None,
    config: str | Path | None,
    environ: Mapping[str, str],
    root: Path,
) -> list[DeployFile]:
    if profile is None and config is None:
        profile, config = environ.get("OUZEL_DEPLOY_PROFILE"), environ.get("OUZEL_DEPLOY_CONFIG")
    if profile is not None and config is not None:
        raise ConfigError(
            f"deploy_profile {profile!r} and deploy_config {str(config)!r} exclude each other: give one of them",
            param="deploy_profile",
        )
    if config is not None:
        return config_files(Path(config), model_types, root)
    return profile_files(profile or DEFAULT_PROFILE, model_types, root)


def _from_environment(environ: Mapping[str, str]) -> dict[str, Sourced]:
    found = {}
    for name, text in environ.items():
        words = name.removeprefix(_PREFIX).lower()
        section, separator, _ = words.partition("__")
        # Other OUZEL_ variables belong to whoever reads them, but OUZEL_TALKER_THREADS is a slip for TALKER__THREADS.
        ours = name.startswith(_PREFIX) and name != LLM_KEY_VARIABLE
        if not ours or not (separator or section.split("_")[0] in SECTIONS):
            continue
        key = words.replace("__", ".")
        if key not in SETTINGS:
            guess = key if separator else key.replace("_", ".", 1)
            raise unknown_setting(guess, f"environment variable {name} (a section ends with two underscores)")
        found[key] = Sourced(SETTINGS[key].parse(text), f"environment {name}")
    return found


def _from_flags(flags: Mapping[str, object]) -> dict[str, Sourced]:
    found = {}
    for key, value in flags.items():
        if value is None:
            continue
        if key not in SETTINGS:
            raise unknown_setting(key, "flag")
        found[key] = Sourced(SETTINGS[key].parse(value) if isinstance(value, str) else value, "flag")
    return found


def _merge(layers: Sequence[Mapping[str, Sourced]]) -> tuple[dict[str, object], dict[str, str]]:
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for key, setting in SETTINGS.items():
        said = next((layer[key] for layer in reversed(layers) if key in layer), None)
        values[key] = setting.default if said is None else setting.convert(said.value, said.source)
        sources[key] = "default" if said is None else said.source
    return values, sources
