"""The API key: where it comes from, who must have one, and comparing it without telling how far it was right."""

from __future__ import annotations

import hmac
import ipaddress
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from ouzel.errors import ConfigError

__all__ = ["CREDENTIAL", "ApiKey", "check_bind", "find_api_key"]

#: name of the systemd credential
CREDENTIAL = "api-key"


class ApiKey:
    """A key that can be matched and not read."""

    __slots__ = ("_digest",)

    def __init__(self, key: str) -> None:
        self._digest = sha256(key.encode()).digest()

    def matches(self, candidate: str) -> bool:
        """Whether it is the same key, in a time that says nothing about it."""
        return hmac.compare_digest(self._digest, sha256(candidate.encode("utf-8", "surrogateescape")).digest())

    def __repr__(self) -> str:
        return "ApiKey(…)"


def find_api_key(flag_file: str | None = None, environ: Mapping[str, str] = os.environ) -> ApiKey | None:
    """The key from the file of a flag, OUZEL_API_KEY, OUZEL_API_KEY_FILE or the systemd credential, in this order.

    :raises ConfigError: when a file cannot be read or a key is empty
    """
    if flag_file is not None:
        return _read(Path(flag_file), "--api-key-file")
    if (key := environ.get("OUZEL_API_KEY")) is not None:
        return _checked(key, "environment OUZEL_API_KEY")
    if (file := environ.get("OUZEL_API_KEY_FILE")) is not None:
        return _read(Path(file), "environment OUZEL_API_KEY_FILE")
    folder = environ.get("CREDENTIALS_DIRECTORY")
    if folder is not None and (credential := Path(folder, CREDENTIAL)).exists():
        return _read(credential, f"credential {CREDENTIAL}")
    return None


def check_bind(host: str, key: ApiKey | None, *, insecure: bool) -> None:
    """:raises ConfigError: when others than this machine could call, no key is set and nobody said `insecure`."""
    if key is None and not insecure and not _is_loopback(host):
        raise ConfigError(
            f"gateway.host is {host!r}, which others can reach: set an API key (OUZEL_API_KEY, --api-key-file or the "
            f"credential {CREDENTIAL}), or say --insecure",
            param="gateway.host",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(path: Path, source: str) -> ApiKey:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: {path} cannot be read: {error}", param="api_key") from error
    return _checked(text, f"{source}: {path}")


def _checked(key: str, source: str) -> ApiKey:
    if not key.strip():
        raise ConfigError(f"{source}: the API key is empty", param="api_key")
    return ApiKey(key.strip())
