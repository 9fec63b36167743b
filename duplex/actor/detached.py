"""Which sessions can be resumed, by which token, and until when. Pure: time and tokens are arguments.

    offered ──► its transport is lost ──► detached, until the window is over ──► expired: the session ends
      ▲  ▲                                    │
      │  └── claimed while the former transport is half open (a reload comes before it is noticed dead)
      └───── claimed, connecting ◄────────────┘        a connection that does not come up leads back, with the time that is left

A token is a bearer's secret: kept as its SHA-256, bound to who opened the session, and spent once its successor was sent.
Until then it may be used again, so that an answer that got lost on the way loses nobody a conversation.
"""

from __future__ import annotations

from dataclasses import dataclass

from duplex.bearer import digest_of
from duplex.units import MonoNs


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who opened a session; nobody else can resume it."""

    tenant: str
    key: str | None
    """Name of the API key, also of that which a client secret was made with; None: the server asks for none."""


@dataclass(slots=True)
class _Entry:
    owner: Owner
    digest: str
    until: MonoNs | None = None
    """End of the window that runs; None: connected."""
    detached: bool = False


class DetachedSessions:
    """The sessions that hold a token, and those of them whose client is away.

    Args:
        window_ns: how long a session waits for its client; 0: none waits.
        detached_max: sessions that wait at once; overflow rule: `reject`, the one that was lost last ends.
    """

    def __init__(self, window_ns: int, detached_max: int) -> None:
        self._window_ns = window_ns
        self._detached_max = detached_max
        self._entries: dict[str, _Entry] = {}
        self._by_digest: dict[str, str] = {}
        self.detached = 0
        """Sessions whose client is away."""

    def offer(self, session: str, owner: Owner, token: str) -> None:
        """Give a connected session its next token; the one before is spent, and a window that ran is over."""
        self.forget(session)
        digest = digest_of(token)
        self._entries[session] = _Entry(owner, digest)
        self._by_digest[digest] = session

    def find(self, token: str, owner: Owner) -> str | None:
        """Return the session that a token resumes; None for a token that is unknown, spent or somebody else's.

        The digest is looked up, not the token: what the look-up's time tells of a digest helps nobody to guess a token.
        """
        session = self._by_digest.get(digest_of(token))
        return session if session is not None and self._entries[session].owner == owner else None

    def detach(self, session: str, now: MonoNs) -> MonoNs | None:
        """Let a session wait for its client; return until when, or None if it cannot wait and has to end."""
        entry = self._entries.get(session)
        if entry is None or not self._window_ns or self.detached >= self._detached_max:
            return None
        if entry.until is None:
            entry.until = MonoNs(now + self._window_ns)
        self._mark(entry, True)
        return entry.until

    def attach(self, session: str) -> bool:
        """Note that a client claims a session; return whether it had been waiting."""
        entry = self._entries[session]
        waited = entry.detached
        self._mark(entry, False)
        return waited

    def expired(self, now: MonoNs) -> list[str]:
        """Return the sessions that have waited in vain."""
        return [
            session
            for session, entry in self._entries.items()
            if entry.detached and entry.until is not None and entry.until <= now
        ]

    def waiting(self) -> list[str]:
        """Return the sessions whose client is away."""
        return [session for session, entry in self._entries.items() if entry.detached]

    def forget(self, session: str) -> None:
        """A session has ended: nothing resumes it."""
        entry = self._entries.pop(session, None)
        if entry is not None:
            self._mark(entry, False)
            del self._by_digest[entry.digest]

    def _mark(self, entry: _Entry, detached: bool) -> None:
        self.detached += detached - entry.detached
        entry.detached = detached
