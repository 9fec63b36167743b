"""Short-lived secrets for browsers: which are live, for how long, and the session that each is bound to.

Pure: the time, and the secret itself, are arguments. Secrets are kept as SHA-256, so that a dump of the memory gives none
away; they end with the process. Source: protocol.md, "HTTP" (client_secrets); field case C70.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final, Literal

from duplex.bearer import digest_of

PREFIX: Final = "ek_"
Scope = Literal["sessions", "dashboard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a secret gives."""

    key_name: str
    """Name of the API key that it was made with."""
    expires_at_s: int
    """Seconds since 1970 from which it is worth nothing."""
    session: dict[str, Any]
    """Session object that its sessions open with."""
    locked: bool = False
    """The client may not change what a session is told, nor see it: `duplex.protocol.lock`."""
    scope: Scope = "sessions"
    """What it is for: opening sessions, or watching the server."""


class TooManySecretsError(Exception):
    """A key has as many live secrets as it may."""


class ClientSecrets:
    """All live secrets.

    Args:
        per_key_max: live secrets of one API key; overflow rule: reject.
    """

    def __init__(self, *, per_key_max: int) -> None:
        self._per_key_max = per_key_max
        self._grants: dict[str, OrderedDict[str, Grant]] = {}
        """By key's name, then by digest."""

    def add(self, secret: str, grant: Grant, now_s: float) -> None:
        """Remember a new secret.

        Args:
            secret: begins with `ek_`; hard to guess.
            now_s: seconds since 1970.
        Raises:
            TooManySecretsError: the key has its fill of them.
        """
        live = self._grants.setdefault(grant.key_name, OrderedDict())
        if len(live) >= self._per_key_max:
            for digest in [digest for digest, old in live.items() if old.expires_at_s <= now_s]:
                del live[digest]
        if len(live) >= self._per_key_max:
            raise TooManySecretsError
        live[digest_of(secret)] = grant

    def find(self, secret: str, now_s: float) -> Grant | None:
        """Return what a secret gives; None where there is none such, or it has expired.

        The digest is looked up, not the secret: what the look-up's time tells of a digest helps nobody to guess a secret.
        """
        digest = digest_of(secret)
        for live in self._grants.values():
            grant = live.get(digest)
            if grant is not None:
                if now_s < grant.expires_at_s:
                    return grant
                del live[digest]
        return None


def merge(bound: dict[str, Any], asked: dict[str, Any] | None) -> dict[str, Any]:
    """Return the session object to open with: what the secret is bound to stands, the client's fills in what it leaves open."""
    merged = dict(asked or {})
    for name, value in bound.items():
        theirs = merged.get(name)
        merged[name] = merge(value, theirs) if isinstance(value, dict) and isinstance(theirs, dict) else value
    return merged
