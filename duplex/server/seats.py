"""How many sessions each caller has at a time. Pure.

    take ─► opening (the offer is read, the socket is upgraded) ─► kept by a session ─► the session has ended
               └── given back: it came to nothing, or the socket is gone

A call's end is not told to the server but seen: whenever somebody asks for a seat, those of sessions that have ended are
swept out. So there are never more than sessions and openings. Source: field case C66.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Seat:
    """One session's place in its callers' counts."""

    callers: frozenset[str]
    session_id: str | None = None
    """The session that keeps it; None: it is being opened, or on a WebSocket."""


class TooManySessionsError(Exception):
    """A caller has as many sessions as it may."""


class Seats:
    """The seats of all callers.

    Args:
        lives: whether there is a session of an id.
    """

    def __init__(self, lives: Callable[[str], bool]) -> None:
        self._lives = lives
        self._taken: list[Seat] = []

    def __len__(self) -> int:
        return len(self._taken)

    def take(self, bounds: Mapping[str, int]) -> Seat:
        """Take one seat in the count of each caller.

        Args:
            bounds: most sessions at a time, by caller.
        Raises:
            TooManySessionsError: one of them has its fill; nothing is taken.
        """
        self._taken = [seat for seat in self._taken if seat.session_id is None or self._lives(seat.session_id)]
        for caller, most in bounds.items():
            if sum(caller in seat.callers for seat in self._taken) >= most:
                raise TooManySessionsError
        seat = Seat(callers=frozenset(bounds))
        self._taken.append(seat)
        return seat

    def give_back(self, seat: Seat) -> None:
        """Give a seat back; a second time does nothing."""
        self._taken = [other for other in self._taken if other is not seat]
