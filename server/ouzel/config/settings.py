"""The schema as a flat list of settings: finding one by its name, and turning a raw value into its type."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import yaml

from ouzel.config.checks import schedule_fault
from ouzel.config.schema import DeployConfig
from ouzel.errors import ConfigError

__all__ = ["SECTIONS", "SETTINGS", "Setting", "build", "describe_nearest", "unknown_setting"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One leaf of the schema."""

    key: str
    hint: Any
    default: Any
    bounds: Mapping[str, float | None]

    def parse(self, text: str) -> object:
        """The raw value that a text from the environment or a flag means; YAML, except where text is wanted."""
        if self.hint is str:
            return text
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            return text

    def convert(self, value: object, source: str) -> object:
        """The value in the setting's type.

        :raises ConfigError: when it has another type or is out of bounds, with `source` and what was expected.
        """
        try:
            return _convert(self.hint, value, self.bounds)
        except ValueError:
            expected = _expected(self.hint, self.bounds)
            raise ConfigError(f"{source}: {self.key} is {value!r}; expected {expected}", param=self.key) from None


def unknown_setting(name: str, source: str) -> ConfigError:
    """The error for a name that is no setting, with the nearest one that is."""
    siblings = {key for key in (*SECTIONS, *SETTINGS) if key.rpartition(".")[0] == name.rpartition(".")[0]}
    namesakes = {key for key in SETTINGS if key.rpartition(".")[2] == name.rpartition(".")[2]}
    near = describe_nearest(name, siblings if difflib.get_close_matches(name, siblings) else namesakes or siblings)
    return ConfigError(f"{source}: unknown setting {name!r}; {near}", param=name)


def describe_nearest(name: str, valid: Collection[str]) -> str:
    """A half-sentence with the valid name nearest to `name`, or with all of them where none is near."""
    if near := difflib.get_close_matches(name, valid, n=1, cutoff=0.5):
        return f"did you mean {near[0]!r}?"
    return "valid are " + (", ".join(sorted(valid)) or "none")


def build(values: Mapping[str, object], sources: Mapping[str, str]) -> DeployConfig:
    """The config from one converted value for each setting.

    :raises ConfigError: when settings contradict each other.
    """
    groups: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for key, value in values.items():
        section, _, name = key.partition(".")
        groups[section][name] = value
    config = DeployConfig(**{section: kind(**groups[section]) for section, kind in _section_types().items()})
    if fault := schedule_fault(config.talker.chunk_frames):
        key = "talker.chunk_frames"
        raise ConfigError(f"{sources[key]}: {key} {list(config.talker.chunk_frames)}: {fault}", param=key)
    # A stream whose credits end before its chunk is full would never move again.
    largest = max(config.talker.chunk_frames[-1], config.talker.chunk_min_frames)
    if config.limits.buffer_frames < largest:
        key = "limits.buffer_frames"
        raise ConfigError(
            f"{sources[key]}: {key} is {config.limits.buffer_frames}; expected at least the largest chunk, {largest}",
            param=key,
        )
    return config


def _convert(hint: Any, value: Any, bounds: Mapping[str, float | None]) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return None if value is None else _convert(arguments[0], value, bounds)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError
        return tuple(_convert(arguments[0], entry, bounds) for entry in value)
    if origin is Literal:
        if value not in arguments:
            raise ValueError
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    # bool is an int to Python and not to anyone who writes YAML.
    if type(value) is not hint or not _within(value, bounds):
        raise ValueError
    return value


def _within(value: Any, bounds: Mapping[str, float | None]) -> bool:
    least, most, multiple = (bounds.get(name) for name in ("ge", "le", "multiple"))
    return not (
        (least is not None and not value >= least)
        or (most is not None and not value <= most)
        or (multiple is not None and value % multiple)
    )


#: `Literal[…] | None` is of the second kind
_UNIONS = (types.UnionType, typing.Union)
_NAMES: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def _expected(hint: Any, bounds: Mapping[str, float | None]) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return f"{_expected(arguments[0], bounds)}, or null"
    if origin is tuple:
        return f"a list, each entry {_expected(arguments[0], bounds)}"
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    words = {"ge": "at least", "le": "at most", "multiple": "a multiple of"}
    limits = [f"{words[name]} {bound:g}" for name, bound in bounds.items() if bound is not None]
    return " ".join([_NAMES[hint], ", ".join(limits)]).strip()


def _section_types() -> dict[str, type]:
    return typing.get_type_hints(DeployConfig)


def _settings() -> dict[str, Setting]:
    found = {}
    for section, kind in _section_types().items():
        hints = typing.get_type_hints(kind)
        for entry in fields(kind):
            key = f"{section}.{entry.name}"
            found[key] = Setting(key, hints[entry.name], entry.default, entry.metadata)
    return found


SECTIONS = tuple(_section_types())
SETTINGS = _settings()
