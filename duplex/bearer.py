"""Secrets of those who bring them: drawn hard to guess, and kept by their digest, so that a dump of memory gives none away."""

from __future__ import annotations

import hashlib
import secrets

_BYTES = 32


def draw(prefix: str) -> str:
    """Return a new secret that begins with `prefix`: URL-safe ASCII."""
    return prefix + secrets.token_urlsafe(_BYTES)


def digest_of(secret: str) -> str:
    """Return what a secret is known by: its SHA-256, in hex. Any text has one, also what came undecodable off the wire."""
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()
