"""API keys: from the settings and their file, compared in constant time, and required where others can reach the server."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from duplex.bearer import digest_of
from duplex.config import ConfigError, ServerSettings
from duplex.media.candidates import is_loopback
from duplex.server.client_secrets import PREFIX

_NAME: Final = re.compile(r"[0-9A-Za-z_.-]{1,64}")
_LENGTH_MIN: Final = 16


class ApiKeys:
    """The keys that open the server.

    Args:
        keys: secret by name; empty: the server asks for none.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._digests = {name: digest_of(secret) for name, secret in keys.items()}

    def __bool__(self) -> bool:
        return bool(self._digests)

    def name_of(self, secret: str) -> str | None:
        """Return the name of a key; None: it is none. Takes as long for every `secret` of one length, right or wrong."""
        digest = digest_of(secret)
        found = None
        for name, known in self._digests.items():
            if hmac.compare_digest(known, digest):
                found = name
        return found


def load_keys(settings: ServerSettings) -> ApiKeys:
    """Return the configured keys.

    Raises:
        ConfigError: a key or the file is no good, or others can reach the server and it has no key.
    """
    keys = {name: secret.get_secret_value() for name, secret in settings.api_keys.items()}
    if settings.api_keys_file is not None:
        for name, secret in _read(settings.api_keys_file, settings.api_keys_file_bytes_max):
            if name in keys:
                raise ConfigError(f"server.api_keys_file: the key '{name}' is there twice")
            keys[name] = secret
    for name, secret in keys.items():
        _check(name, secret)
    if len(set(keys.values())) < len(keys):
        raise ConfigError("server.api_keys: two names have the same key")
    if not keys and not settings.insecure and not is_loopback(settings.host):
        raise ConfigError(
            f"server.host {settings.host} is reachable by others, and no API key is set: set server.api_keys or "
            "server.api_keys_file (docs/security.md), or server.insecure=true to let everybody in"
        )
    return ApiKeys(keys)


def _read(path: Path, bytes_max: int) -> list[tuple[str, str]]:
    """Return the lines `name=key`; empty ones and those that begin with # say nothing."""
    try:
        with path.open("rb") as file:
            raw = file.read(bytes_max + 1)
        if len(raw) > bytes_max:
            raise ConfigError(f"server.api_keys_file is larger than {bytes_max} bytes: {path}")
        lines = raw.decode().splitlines()
    except OSError as error:
        raise ConfigError(f"server.api_keys_file cannot be read: {error.strerror}: {path}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"server.api_keys_file is not UTF-8: {path}") from None
    pairs: list[tuple[str, str]] = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        name, equals, secret = line.partition("=")
        if not equals:
            raise ConfigError(f"server.api_keys_file, line {number}: it takes name=key")
        pairs.append((name.strip(), secret.strip()))
    if not pairs:
        raise ConfigError(f"server.api_keys_file has no key: {path}")
    return pairs


def _check(name: str, secret: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError("server.api_keys: a name has 1 to 64 letters, digits, dots, dashes and underscores")
    if len(secret) < _LENGTH_MIN or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ConfigError(f"server.api_keys: the key '{name}' needs {_LENGTH_MIN} printable ASCII characters or more")
    if secret.startswith(PREFIX):
        raise ConfigError(f"server.api_keys: the key '{name}' begins with {PREFIX}, as client secrets do")
