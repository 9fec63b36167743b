"""The one timer of a process's talkers: every 20 ms for each of them, at absolute times, evenly spread.

    beat     0                   1
    phase    0   1   2   3 …     0   1 …        slot = 20 ms ÷ phases; a slot that is late is served late, none is left out

It runs on the machine's monotonic clock; the loop's timers only wake it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from duplex.units import NS_PER_S, MonoNs, ns_from_ms

BEAT_NS = ns_from_ms(20)
_GRACE = ns_from_ms(1)
"""uvloop's timers count whole milliseconds."""
_log = structlog.get_logger(__name__)


class Talking(Protocol):
    """What is served every 20 ms."""

    def beat(self, due: MonoNs, now: MonoNs) -> None:
        """Do what was due at `due`; successive calls are exactly one beat apart."""

    def failed(self) -> None:
        """`beat` raised: it is no longer called."""


class Metronome:
    """The timer; runs on the loop that creates it and sleeps while nobody talks.

    Args:
        phases: slots in a beat.
        clock: the machine's monotonic clock.
    """

    def __init__(self, phases: int, clock: Callable[[], MonoNs]) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._members: list[list[Talking]] = [[] for _ in range(phases)]
        self._slot_ns = BEAT_NS // phases
        self._origin = clock()
        self._next = 0
        """Slot that is due next."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, member: Talking) -> None:
        """Serve `member` from its next slot on, in the phase that has the fewest."""
        min(self._members, key=len).append(member)
        if self._timer is None:
            self._next = max(self._next, (self._clock() - self._origin) // self._slot_ns + 1)
            self._arm()

    def remove(self, member: Talking) -> None:
        """Serve `member` no more; unknown ones are ignored."""
        for members in self._members:
            if member in members:
                members.remove(member)
        if not any(self._members):
            self.close()

    def close(self) -> None:
        """Stop the timer; it starts again with the next member."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> int:
        return self._origin + self._next * self._slot_ns

    def _arm(self) -> None:
        self._timer = self._loop.call_later(max(self._due() - self._clock(), 0) / NS_PER_S, self._fire)

    def _fire(self) -> None:
        while (due := self._due()) <= self._clock() + _GRACE:
            for member in tuple(self._members[self._next % len(self._members)]):
                self._serve(member, MonoNs(due))
            self._next += 1
        if any(self._members):
            self._arm()
        else:
            self._timer = None

    def _serve(self, member: Talking, due: MonoNs) -> None:
        try:
            member.beat(due, self._clock())
        except Exception:  # noqa: BLE001 - the root of a talker's work: it ends, the others go on
            _log.exception("talker_failed")
            self.remove(member)
            member.failed()
