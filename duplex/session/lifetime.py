"""How long a session lasts: told ahead, ended in order.

first message ─────────────► warning ──────► limit ── what plays may finish ──► end
                             duplex.session.ending    at most ending_grace_s     error session_expired, then the close
"""

from __future__ import annotations

from enum import Enum, auto

from duplex.config import SessionSettings
from duplex.units import MonoNs, ns_from_seconds


class Due(Enum):
    """What the time has come for."""

    WARNING = auto()
    LIMIT = auto()
    """No reply begins any more."""
    END = auto()


class Lifetime:
    """The greatest length of one session.

    Args:
        settings: its bounds; `length_s_max` 0 is none.
    """

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._limit: MonoNs | None = None
        self._warned = False
        self.over = False
        """The limit is reached: what plays may finish."""

    def begin(self, now: MonoNs) -> None:
        """The session lives, from the first such word on."""
        if self._limit is None and self._settings.length_s_max:
            self._limit = MonoNs(now + ns_from_seconds(self._settings.length_s_max))

    def deadline(self, playing: bool) -> MonoNs | None:
        """Return when to look again; None: never.

        Args:
            playing: a reply is being made or played.
        """
        if self._limit is None:
            return None
        if self.over:
            grace = ns_from_seconds(self._settings.ending_grace_s) if playing else 0
            return MonoNs(self._limit + grace)
        if self._warned:
            return self._limit
        return MonoNs(self._limit - ns_from_seconds(self._settings.ending_warning_s))

    def look(self, now: MonoNs, playing: bool) -> Due | None:
        """Return what is due; each thing once."""
        deadline = self.deadline(playing)
        if deadline is None or now < deadline:
            return None
        if self.over:
            self._limit = None
            return Due.END
        if self._warned:
            self.over = True
            return Due.LIMIT
        self._warned = True
        return Due.WARNING

    def left_s(self, now: MonoNs) -> float:
        """Return the seconds until the limit."""
        return 0.0 if self._limit is None else max(0, self._limit - now) / 1e9
