"""Who looks over a session's shoulder: told of every message and effect as it passes, and never asked anything.

A watch belongs to the process, a session watch to one session. Both are called on the loop's thread, between the core and
what executes its effects, so they return at once; nothing that they do changes a session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from duplex.config import Settings
from duplex.payloads import JobId
from duplex.protocol import TransportName
from duplex.session.config import SessionConfig
from duplex.session.core import SessionCore
from duplex.session.effects import Effect
from duplex.session.lane import Lane
from duplex.session.messages import Inbound
from duplex.session.traits import Traits
from duplex.session.view import LaneState
from duplex.stages.runner import StageSpan
from duplex.units import MonoNs


class SessionWatch(Protocol):
    """Looks at one session."""

    def took(self, message: Inbound, lane: Lane, now: MonoNs) -> None:
        """The core has taken a message; `lane` is its output as it stands then, to be read only."""

    def gave(self, effect: Effect, now: MonoNs) -> None:
        """The core asked for an effect; it is about to be executed."""

    def ended(self, now: MonoNs) -> None:
        """The session has given everything back."""


class Watch(Protocol):
    """Looks at the process."""

    def session(self, session_id: str, conversation_id: str, transport: TransportName, now: MonoNs) -> SessionWatch:
        """A session began."""

    def span(self, span: StageSpan) -> None:
        """A job has left a stage."""


MakeCore = Callable[
    [str, SessionConfig, Settings, Traits, Callable[[str], str], Callable[[], JobId]], SessionCore
]  # fmt: skip
"""Makes a core, of what `SessionCore` is made of."""


class SessionRecorder(Protocol):
    """Records sessions: makes cores that keep what they are told and what they ask for."""

    def core(
        self, session: str, config: SessionConfig, settings: Settings, traits: Traits, new_id: Callable[[str], str],
        next_job: Callable[[], JobId],
    ) -> SessionCore:  # fmt: skip
        """Return the core of a new session."""

    def ended(self, session_id: str) -> None:
        """A session has given everything back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSession:
    """One live session, as those see it who may not speak to it."""

    key: int
    """Names it in this process, and gives no access to it."""
    transport: TransportName
    opened: bool
    """Its client can be told of events."""
    began_at: MonoNs
    state: LaneState
