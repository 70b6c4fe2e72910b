from __future__ import annotations

from pathlib import Path

import pytest

from ouzel.errors import ConfigError
from ouzel.gateway.api_key import ApiKey, check_bind, find_api_key


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::", "speech.example"])
def test_a_bind_that_others_reach_needs_a_key(host: str) -> None:
    with pytest.raises(ConfigError, match="set an API key"):
        check_bind(host, None, insecure=False)
    check_bind(host, None, insecure=True)
    check_bind(host, ApiKey("k"), insecure=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_needs_none(host: str) -> None:
    check_bind(host, None, insecure=False)


def test_where_a_key_comes_from(tmp_path: Path) -> None:
    (tmp_path / "api-key").write_text("credential\n")
    (tmp_path / "flag").write_text("flag\n")
    (tmp_path / "file").write_text("file\n")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert find_api_key(environ={}) is None
    assert _key(None, environ).matches("credential")
    environ["OUZEL_API_KEY_FILE"] = str(tmp_path / "file")
    assert _key(None, environ).matches("file")
    environ["OUZEL_API_KEY"] = "environment"
    assert _key(None, environ).matches("environment")
    assert _key(str(tmp_path / "flag"), environ).matches("flag")


def _key(flag: str | None, environ: dict[str, str]) -> ApiKey:
    found = find_api_key(flag, environ)
    assert found is not None
    return found


def test_a_key_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--api-key-file: .*missing cannot be read"):
        find_api_key(str(tmp_path / "missing"), {})
    with pytest.raises(ConfigError, match="OUZEL_API_KEY: the API key is empty"):
        find_api_key(environ={"OUZEL_API_KEY": "  "})


def test_a_key_shows_itself_to_nobody() -> None:
    assert "s3cret" not in repr(ApiKey("s3cret"))
