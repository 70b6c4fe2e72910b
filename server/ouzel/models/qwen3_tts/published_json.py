"""Strict reading of a checkpoint's JSON files: what is missing or of the wrong kind is named, never defaulted."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ouzel.errors import CheckpointError

__all__ = ["Section", "read_json"]


class Section:
    """One JSON object of a checkpoint file; an accessor raises `CheckpointError` naming file, key and need."""

    __slots__ = ("_data", "_file", "_path")

    def __init__(self, data: Mapping[str, Any], file: str, path: str = "") -> None:
        self._data = data
        self._file = file
        self._path = path

    def __contains__(self, key: str) -> bool:
        return self._data.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def section(self, key: str) -> Section:
        """The object under `key`."""
        return Section(self._value(key, dict, "an object"), self._file, f"{self._path}{key}.")

    def integer(self, key: str) -> int:
        """The whole number under `key`."""
        value: int = self._value(key, int, "a whole number")
        return value

    def index(self, key: str, size: int) -> int:
        """The whole number under `key`, a row of a table of `size` rows."""
        value = self.integer(key)
        if not 0 <= value < size:
            raise self.error(key, f"is {value}, expected 0 to {size - 1}")
        return value

    def number(self, key: str) -> float:
        """The number under `key`."""
        return float(self._value(key, (int, float), "a number"))

    def positive(self, key: str) -> float:
        """The number under `key`, which is above 0."""
        return float(self._above_zero(key, self.number(key)))

    def flag(self, key: str) -> bool:
        """The truth value under `key`."""
        value: bool = self._value(key, bool, "true or false")
        return value

    def text(self, key: str) -> str:
        """The string under `key`."""
        value: str = self._value(key, str, "a string")
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        """The list of whole numbers under `key`."""
        values = self._value(key, list, "a list of whole numbers")
        if not all(type(value) is int for value in values):
            raise self.error(key, f"is {values!r}, expected a list of whole numbers")
        return tuple(values)

    def names(self, key: str) -> dict[str, str]:
        """The names under `key` that map to a string; those that map to false or null are left out."""
        chosen = {name: value for name, value in self._value(key, dict, "an object").items() if value}
        if not all(isinstance(value, str) for value in chosen.values()):
            raise self.error(key, f"is {chosen!r}, expected a name or false for each")
        return chosen

    def fields(self, kind: type, *, without: Collection[str] = ()) -> dict[str, Any]:
        """A value for every whole number, number and list of whole numbers among the fields of the dataclass `kind`.

        They are sizes, rates and bases, so all are above 0. A field with a default may be missing here; any other is an
        error. `without` names fields that aren't keys.
        """
        readers = {"int": self.integer, "float": self.number, "tuple[int, ...]": self.integers}
        return {
            field.name: self._above_zero(field.name, readers[str(field.type)](field.name))
            for field in dataclasses.fields(kind)
            if field.type in readers
            and field.name not in without
            and (field.name in self or field.default is dataclasses.MISSING)
        }

    def error(self, key: str, complaint: str) -> CheckpointError:
        """The error to raise about `key`; `complaint` continues the sentence."""
        return CheckpointError(f"{self._file}: {self._path}{key} {complaint}")

    def _above_zero(self, key: str, value: Any) -> Any:
        if not all(one > 0 for one in (value if isinstance(value, tuple) else (value,))):
            raise self.error(key, f"is {self._data[key]!r}, expected above 0")
        return value

    def _value(self, key: str, kind: type | tuple[type, ...], expected: str) -> Any:
        if key not in self._data:
            raise self.error(key, f"is missing, expected {expected}")
        value = self._data[key]
        # bool is an int to isinstance, never to a checkpoint.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(key, f"is {value!r}, expected {expected}")
        return value


def read_json(file: Path) -> Section:
    """The JSON object in `file`; `CheckpointError` when it is missing, torn or not an object."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{file} is missing") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} is not readable JSON: {error}") from error
    if not isinstance(data, dict):
        raise CheckpointError(f"{file} holds {type(data).__name__}, expected a JSON object")
    return Section(data, str(file))
