"""The API key with which the commands on this side of the wire (`talk`, `trace`, the load generator) reach a server.

It comes from a file or from the environment, never from an argument: other users of the machine see a process's arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from duplex.config import CLIENT_KEY_VARIABLE, ConfigError

_FILE_BYTES_MAX = 4096


def read_key(path: Path | None, environ: Mapping[str, str]) -> str | None:
    """Return the key; None: there is none.

    Args:
        path: file with the key and nothing else; None takes the environment's `DUPLEX_API_KEY`.
    Raises:
        ConfigError: the file cannot be read, or a header cannot carry the key.
    """
    key = environ.get(CLIENT_KEY_VARIABLE, "") if path is None else _read(path)
    where = CLIENT_KEY_VARIABLE if path is None else str(path)
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"{where}: a key is one line of printable ASCII")
    if path is not None and not key:
        raise ConfigError(f"{where}: there is no key in it")
    return key or None


def headers_of(key: str | None) -> dict[str, str]:
    """Return the headers that carry a key."""
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_FILE_BYTES_MAX).decode()
    except OSError as error:
        raise ConfigError(f"{path}: the key cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: a key is one line of printable ASCII") from None
