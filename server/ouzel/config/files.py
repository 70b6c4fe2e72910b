"""Deploy files: where the profiles lie, what a file says line by line, and what it builds on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import yaml

from ouzel.config.settings import SECTIONS, SETTINGS, describe_nearest, unknown_setting
from ouzel.errors import ConfigError

__all__ = ["DeployFile", "Sourced", "config_files", "deploy_root", "profile_files"]

_BASE = "base_config"
_PROFILE = "profile:"


@dataclass(frozen=True, slots=True)
class Sourced:
    """A raw value and where it was said."""

    value: object
    source: str


@dataclass(frozen=True, slots=True)
class DeployFile:
    """One YAML file: its settings by dotted name, and the base that it overlays."""

    path: Path
    settings: Mapping[str, Sourced]
    base: Sourced | None


def deploy_root() -> Path:
    """The folder of the profiles: `deploy/` of a checkout, the same as package data where Ouzel is installed."""
    return Path(str(resources.files("ouzel") / "deploy")).resolve()


def profile_files(profile: str, model_types: Sequence[str], root: Path) -> list[DeployFile]:
    """`server.yaml` and the file of each model type, bases first.

    :raises ConfigError: when the profile doesn't exist, or has no file for a model type; names the nearest.
    """
    profiles = {folder.name for folder in root.iterdir() if folder.is_dir()}
    if profile not in profiles:
        raise ConfigError(
            f"unknown deploy profile {profile!r}; {describe_nearest(profile, profiles)}", param="deploy_profile"
        )
    present = {path.stem for path in (root / profile).glob("*.yaml")}
    for model_type in model_types:
        if model_type not in present:
            raise ConfigError(
                f"deploy profile {profile!r} has no {model_type}.yaml; "
                f"{describe_nearest(model_type, present - {'server'})}",
                param="deploy_profile",
            )
    files: list[DeployFile] = []
    for name in ("server", *model_types):
        files += config_files(root / profile / f"{name}.yaml", model_types, root)
    return files


def config_files(path: Path, model_types: Sequence[str], root: Path) -> list[DeployFile]:
    """A file after everything that it builds on.

    `base_config` is a path, relative to the file that names it, or `profile:NAME` for a whole profile.

    :raises ConfigError: when a file is missing or torn, says an unknown setting, or builds on itself.
    """
    chain: list[DeployFile] = []
    below: list[DeployFile] = []
    following: Path | None = path.resolve()
    said = "deploy_config"
    while following is not None:
        if any(file.path == following for file in chain):
            circle = " → ".join(str(file.path) for file in [*chain, DeployFile(following, {}, None)])
            raise ConfigError(f"{_BASE} goes round in a circle: {circle}", param=_BASE)
        file = _read(following, said, root)
        chain.append(file)
        following = None
        if file.base is not None:
            said, base = file.base.source, str(file.base.value)
            if base.startswith(_PROFILE) and file.path.is_relative_to(root):
                raise ConfigError(f"{said}: a profile's own file names its base by path, not {base!r}", param=_BASE)
            if base.startswith(_PROFILE):
                below = profile_files(base.removeprefix(_PROFILE), model_types, root)
            else:
                following = (file.path.parent / base).resolve()
    return [*below, *reversed(chain)]


def _read(path: Path, said: str, root: Path) -> DeployFile:
    name = f"deploy/{path.relative_to(root)}" if path.is_relative_to(root) else str(path)
    try:
        leaves = list(_leaves(yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader), "", name))
    except OSError as error:
        raise ConfigError(f"{said}: {path} can't be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name} is no YAML: {error}") from error
    settings: dict[str, Sourced] = {}
    for key, entry in leaves:
        if key in settings:
            raise ConfigError(f"{entry.source}: {key} was said before, at {settings[key].source}", param=key)
        settings[key] = entry
    base = settings.pop(_BASE, None)
    if base is not None and not isinstance(base.value, str):
        raise ConfigError(f"{base.source}: {_BASE} is {base.value!r}; expected a path or {_PROFILE}NAME", param=_BASE)
    return DeployFile(path, settings, base)


def _leaves(node: yaml.Node | None, prefix: str, name: str) -> Iterator[tuple[str, Sourced]]:
    if node is None or (isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"):
        return
    if not isinstance(node, yaml.MappingNode):
        where = f"{name}:{node.start_mark.line + 1}"
        raise ConfigError(f"{where}: expected settings below {prefix.rstrip('.') or 'the top'}, found a value")
    for key_node, value_node in node.value:
        source = f"{name}:{key_node.start_mark.line + 1}"
        key = f"{prefix}{key_node.value}"
        if key in SECTIONS:
            yield from _leaves(value_node, f"{key}.", name)
        elif key in SETTINGS or key == _BASE:
            yield key, Sourced(yaml.SafeLoader("").construct_object(value_node, deep=True), source)
        else:
            raise unknown_setting(key, source)
