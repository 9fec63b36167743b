"""Resuming: a session whose transport is lost waits for its client, which comes back with a token.

The shell around `DetachedSessions`: draws tokens, keeps the timers, counts what came of it. Runs on the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NoReturn

import structlog

from duplex.actor.attachment import Attachment
from duplex.actor.detached import DetachedSessions, Owner
from duplex.bearer import draw
from duplex.config import ServerSettings
from duplex.protocol import ResumeRefused, TransportName
from duplex.stages.executor import Executor, Observe
from duplex.units import MonoNs, ns_from_seconds

PREFIX: Final = "rt_"
Way = TransportName | Literal["rtvi"]
"""How a client is connected, as far as it matters to what the end of its connection means."""
_LOST: Final[dict[Way, frozenset[str]]] = {
    "webrtc": frozenset({"vanished", "client"}),
    "websocket": frozenset({"vanished", "left"}),
    "rtvi": frozenset({"vanished"}),
}
"""Reasons that are no goodbye. A WebRTC client says it by hanging up: a page that reloads closes its connection as well. One
that speaks RTVI has no other word for it than to close its connection, and does not come back after a reload."""
_NEVER_UP: Final = frozenset({"error", "client", "connect_timeout"})
"""Reasons for which a connection that brings a client back may not come up."""
_log = structlog.get_logger("duplex.resume")


class Resumption:
    """All sessions that may be resumed.

    Args:
        settings: the window and the bound.
        executor: the clock.
        observe: takes measures.
        end: ends a session whose client did not come back, for a reason.
    """

    def __init__(
        self, settings: ServerSettings, executor: Executor, observe: Observe, end: Callable[[str, str], None]
    ) -> None:
        self._sessions = DetachedSessions(ns_from_seconds(settings.resume_window_s), settings.detached_max)
        self._offers = settings.resume_window_s > 0
        self._executor = executor
        self._observe = observe
        self._end = end
        self._owners: dict[str, Owner] = {}

    def began(self, session: str, owner: Owner) -> None:
        """Note who opened a session."""
        self._owners[session] = owner

    def owner(self, session: str) -> Owner:
        """Return who opened a session that lives."""
        return self._owners[session]

    def owns(self, owner: Owner, session: str) -> bool:
        """Return whether a live session is somebody's."""
        return self._owners.get(session) == owner

    def ended(self, session: str) -> None:
        """A session has ended: nothing resumes it."""
        del self._owners[session]
        self._sessions.forget(session)
        self._tell()

    def offer(self, session: str) -> str | None:
        """Return a session's next token; None where none can be resumed. It is in no log and kept by its digest only."""
        if not self._offers:
            return None
        token = draw(PREFIX)
        self._sessions.offer(session, self._owners[session], token)
        return token

    def keep(self, session: str, token: str | None) -> str:
        """Return the token of a client that keeps one for good; a window that ran is over.

        Args:
            token: the one that it has; None: it has none yet.
        """
        kept = token or draw(PREFIX)
        self._sessions.offer(session, self._owners[session], kept)
        return kept

    def session_of(self, token: str, owner: Owner) -> str | None:
        """Return the session that a token would resume, if any."""
        return self._sessions.find(token, owner)

    def find(self, token: str, owner: Owner) -> str:
        """Return the session that a token resumes.

        Raises:
            ResumeRefused: none.
        """
        session = self.session_of(token, owner)
        if session is None:
            self.refuse()
        return session

    def refuse(self) -> NoReturn:
        """Count and refuse an attempt.

        Raises:
            ResumeRefused: always.
        """
        self._observe("duplex_resumes_total", 1, {"outcome": "refused"})
        raise ResumeRefused

    def attached(self, session: str) -> None:
        """A client has come back to a session."""
        outcome = "resumed" if self._sessions.attach(session) else "taken_over"
        self._observe("duplex_resumes_total", 1, {"outcome": outcome})
        _log.info("session_resumed", session_id=session, outcome=outcome)
        self._tell()

    def waits(self, session: str, attachment: Attachment, way: Way, reason: str) -> bool:
        """Decide what a lost transport means; return whether the session waits for its client."""
        lost = reason in _LOST[way] or (not attachment.opened and reason in _NEVER_UP)
        until = self._sessions.detach(session, self._executor.now()) if lost else None
        if until is None:
            return False
        self._executor.call_at(until, lambda: self._expire(until))
        _log.info("session_detached", session_id=session, reason=reason)
        self._tell()
        return True

    def end_waiting(self, reason: str) -> None:
        """Nobody can come back any more: end the sessions that wait."""
        self._offers = False
        for session in self._sessions.waiting():
            self._end(session, reason)

    def _expire(self, until: MonoNs) -> None:
        for session in self._sessions.expired(max(until, self._executor.now())):
            self._observe("duplex_resumes_total", 1, {"outcome": "expired"})
            self._end(session, "expired")

    def _tell(self) -> None:
        self._observe("duplex_sessions_detached", self._sessions.detached, {})
