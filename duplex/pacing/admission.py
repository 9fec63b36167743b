"""Admission: whether one more session may come in. Refusal comes before harm."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether to admit, and if not, why and when to come back."""

    admitted: bool
    reason: str = "ok"
    retry_after_s: int = 0


def admit(live: int, sessions_max: int, ready: bool, retry_after_s: int = 5) -> Decision:
    """Decide on one more session.

    Args:
        live: sessions already there, connecting ones included.
        sessions_max: bound on them.
        ready: all stages are loaded and alive.
        retry_after_s: what a refused client is told.
    """
    if not ready:
        return Decision(admitted=False, reason="not_ready", retry_after_s=retry_after_s)
    if live >= sessions_max:
        return Decision(admitted=False, reason="sessions_max", retry_after_s=retry_after_s)
    return Decision(admitted=True)
