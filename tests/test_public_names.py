from __future__ import annotations

import pytest

import ouzel

PUBLIC = [
    "AsyncOmni",
    "AudioChunk",
    "AuthError",
    "BusyError",
    "CheckpointError",
    "ConfigError",
    "EngineError",
    "Health",
    "NotFoundError",
    "NotReadyError",
    "Omni",
    "OutputError",
    "OuzelError",
    "RequestError",
    "TextTooLongError",
]


def test_the_public_names_are_these() -> None:
    assert ouzel.__all__ == PUBLIC
    assert set(dir(ouzel)) == {*PUBLIC, "__version__"}


@pytest.mark.parametrize("name", PUBLIC)
def test_each_public_name_loads(name: str) -> None:
    assert getattr(ouzel, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'ouzel' has no attribute 'AsyncOmny'"):
        _ = ouzel.AsyncOmny
