"""The 20 ms clock of everything that is sent: one timer per process, in phases, that drops time when it is late.

Members are spread over `phases`, so that their work and their packets do not come in one lump:

    tick     0                   1
    phase    0   1   2   3   4   0   1 …          one slot = 20 ms ÷ phases
    time     ├───┼───┼───┼───┼───┼───┼──►

Slots are absolute times from the start, so nothing drifts. A slot that is a little late is served late; once the lag
exceeds the bound, what was missed is skipped, not sent in a burst: members are handed the number of their tick and see
the jump.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from duplex.units import MonoNs, ns_from_ms, ns_from_samples, seconds_from_ns

TICK_NS = ns_from_samples(960)
_log = structlog.get_logger(__name__)


class Ticked(Protocol):
    """What is served every 20 ms."""

    def tick(self, number: int, now: MonoNs) -> None:
        """Do what is due; `number` counts ticks since the process began and jumps where time was dropped."""

    def tick_failed(self) -> None:
        """`tick` raised: the member is no longer served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TickerStats:
    """Counts since the start."""

    members: int
    slots: int
    """Slots served."""
    dropped: int
    """Slots skipped because the loop was late."""


class TickSchedule:
    """The arithmetic of the ticker.

    Args:
        now: time of slot 0.
        phases: slots in a tick.
        late_drop_ms: lag past which missed slots are skipped.
    """

    def __init__(self, *, now: MonoNs, phases: int, late_drop_ms: int) -> None:
        self._origin = now
        self._phases = phases
        self._late = ns_from_ms(late_drop_ms)
        self._next = 0
        self.dropped = 0

    def due(self) -> MonoNs:
        """Return when the next slot is due."""
        return MonoNs(self._origin + self._next * TICK_NS // self._phases)

    def resume(self, now: MonoNs) -> None:
        """Pass over the slots of a time without members; they count as neither served nor dropped."""
        self._next = max(self._next, (now - self._origin) * self._phases // TICK_NS)

    def take(self, now: MonoNs) -> tuple[int, int] | None:
        """Return the number and phase of the next slot due by `now`, or None; skips what is too late first."""
        if now < self.due():
            return None
        if now - self.due() > self._late:
            latest = (now - self._origin) * self._phases // TICK_NS
            self.dropped += latest - self._next
            self._next = latest
        slot, self._next = self._next, self._next + 1
        return divmod(slot, self._phases)


class Ticker:
    """The shell: runs on the loop that creates it, sleeps while there are no members.

    Args:
        phases, late_drop_ms: as in `TickSchedule`.
        on_lateness: takes the seconds by which each served slot was late (the loop's lag and that of sending).
    """

    def __init__(self, *, phases: int, late_drop_ms: int, on_lateness: Callable[[float], None] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._late_drop_ms = late_drop_ms
        self._on_lateness = on_lateness
        self._phases: list[list[Ticked]] = [[] for _ in range(phases)]
        self._schedule = TickSchedule(now=self.now(), phases=phases, late_drop_ms=late_drop_ms)
        self._timer: asyncio.TimerHandle | None = None
        self._slots = 0

    def now(self) -> MonoNs:
        """Return the loop's clock."""
        return MonoNs(int(self._loop.time() * 1e9))

    def add(self, member: Ticked) -> None:
        """Serve `member` from its next slot on, in the phase that has the fewest members."""
        min(self._phases, key=len).append(member)
        if self._timer is None:
            self._schedule.resume(self.now())
            self._arm()

    def remove(self, member: Ticked) -> None:
        """Serve `member` no more; unknown members are ignored."""
        for members in self._phases:
            if member in members:
                members.remove(member)
        if not any(self._phases):
            self.close()

    def close(self) -> None:
        """Stop the timer; it starts again with the next member."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stats(self) -> TickerStats:
        """Return the counts."""
        return TickerStats(members=sum(map(len, self._phases)), slots=self._slots, dropped=self._schedule.dropped)

    def _arm(self) -> None:
        self._timer = self._loop.call_at(self._schedule.due() / 1e9, self._fire, self._schedule.due())

    def _fire(self, armed_at: MonoNs) -> None:
        now = MonoNs(max(armed_at, self.now()))  # rounding must not show a moment before the slot
        due = self._schedule.due()
        while (slot := self._schedule.take(now)) is not None:
            number, phase = slot
            self._slots += 1
            if self._on_lateness is not None:
                self._on_lateness(seconds_from_ns(max(now - due, 0)))
            for member in tuple(self._phases[phase]):
                self._serve(member, number, now)
            due = self._schedule.due()
        if any(self._phases):
            self._arm()
        else:
            self._timer = None

    def _serve(self, member: Ticked, number: int, now: MonoNs) -> None:
        try:
            member.tick(number, now)
        except Exception:  # noqa: BLE001 - the root of a member's work
            _log.exception("tick_failed")
            self.remove(member)
            member.tick_failed()
