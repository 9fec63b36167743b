"""The model speaks first: once in a session's life, and only while nothing has been said.

connected ── greeting_delay_ms, or the client's session.update ──► greet      a resumed session was greeted already
"""

from __future__ import annotations

from duplex.config import SessionSettings
from duplex.session.config import Greeting
from duplex.units import MonoNs, ns_from_ms


def greeting_of(settings: SessionSettings) -> Greeting | None:
    """Return the server's own greeting."""
    text, instructions = settings.greeting_text, settings.greeting_instructions
    return None if text is None and instructions is None else Greeting(text=text, instructions=instructions)


class Greeter:
    """Decides when to greet.

    Args:
        delay_ms: after the connection, for a client that configures its session by its first event.
    """

    def __init__(self, delay_ms: int) -> None:
        self._delay_ms = delay_ms
        self._due: MonoNs | None = None
        self._done = False

    def connected(self, now: MonoNs) -> None:
        """The client can be told of events."""
        if self._due is None:
            self._due = MonoNs(now + ns_from_ms(self._delay_ms))

    def deadline(self, greeting: Greeting | None) -> MonoNs | None:
        """Return when to greet; None: there is nothing to say, or it has been said."""
        return None if self._done or greeting is None else self._due

    def configured(self, now: MonoNs) -> None:
        """The client has said what it wants: there is nothing to wait for."""
        if self._due is not None:
            self._due = min(self._due, now)

    def take(self, greeting: Greeting | None, untouched: bool, now: MonoNs) -> Greeting | None:
        """Return the greeting if it is due; never again after that, or once anything has happened.

        Args:
            greeting: in force.
            untouched: nothing was said or asked for in this session.
        """
        due = self.deadline(greeting)
        if due is None or now < due:
            return None
        self._done = True
        return greeting if untouched else None
