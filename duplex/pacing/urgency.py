"""Urgency: which work is due first, across sessions, in terms of their listeners.

    CRITICAL     would run dry before its next unit is done            least slack first
    FIRST        no audio yet                                          oldest first; CRITICAL from its deadline on
    PACED        below the lead target                                 least lead first
    SPARE        at the target, on a device that would else be idle    least lead first
    SPECULATIVE  of a reply whose turn has not ended                   oldest first
    HELD         at the target, or without credit: not scheduled

Source: DESIGN.md §5.
"""

from __future__ import annotations

from enum import IntEnum

from duplex.payloads import Pace
from duplex.units import MonoNs


class Urgency(IntEnum):
    """Classes in the order in which they are served."""

    CRITICAL = 0
    FIRST = 1
    PACED = 2
    SPARE = 3
    SPECULATIVE = 4
    HELD = 5


Rank = tuple[Urgency, int]
"""Class, and order inside it: smaller is served first. Of HELD work the order is when it becomes due."""
_BEHIND = 2**60
FAR = MonoNs(2**62)
"""Due at no time that is known: something else has to happen first."""


def rank(pace: Pace, now: MonoNs, unit_ns: int, first_deadline_ns: int, spare_ns: int = 0) -> Rank:
    """Return how urgent a piece of work is.

    Args:
        pace: when it is due.
        now: the present.
        unit_ns: time one unit of the stage takes, queueing downstream included.
        first_deadline_ns: wait after which first audio counts as critical.
        spare_ns: how far beyond the lead target work may go while nothing else is due.
    """
    if pace.blocked:
        return Urgency.HELD, FAR
    if pace.speculative:
        return Urgency.SPECULATIVE, pace.since
    if pace.unpaced:
        return Urgency.PACED, _BEHIND + pace.since
    if pace.dry_at is None:
        deadline = pace.since + first_deadline_ns
        if now >= deadline - unit_ns:
            return Urgency.CRITICAL, deadline - now
        return Urgency.FIRST, pace.since
    slack = pace.dry_at - now
    if slack <= unit_ns:
        return Urgency.CRITICAL, slack
    if pace.hold_until is not None and now < pace.hold_until:
        spare_from = pace.hold_until - spare_ns
        if spare_ns and now >= spare_from:
            return Urgency.SPARE, slack
        return Urgency.HELD, min(spare_from, pace.dry_at - unit_ns)
    return Urgency.PACED, slack
