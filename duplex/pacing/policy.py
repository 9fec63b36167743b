"""What a scheduling policy is: it ranks pieces of work, and knows nothing of stages, threads or clocks. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from duplex.pacing.urgency import Rank
from duplex.payloads import Job, Pace
from duplex.units import MonoNs


class WorkState(Enum):
    """Where a piece of work is in its stage."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"


@dataclass(slots=True, kw_only=True, eq=False)
class Work:
    """One job in one stage, as the scheduler sees it."""

    job: Job
    pace: Pace
    """In terms of its listener, as of now: the session core renews it while the job waits or runs."""
    arrived: MonoNs
    """When it came to this stage."""
    dedicated: bool = False
    """Its device computes nothing but stages: work in its idle time takes nothing from anybody."""
    served: int = 0
    """The stage's count of services when its session was last served here; 0: never."""
    state: WorkState = WorkState.WAITING


class Policy(Protocol):
    """Which work is due first; one small class each in `duplex.pacing.policies`."""

    @property
    def name(self) -> str: ...

    @property
    def bounded(self) -> bool:
        """Whether generation keeps to the lead target; False: it runs as far ahead of the listener as it can."""

    def ride_units(self, dedicated: bool) -> int | None:
        """Return the units of slack below which work may share a step with one that waits for first audio; None: any may.

        Args:
            dedicated: the step runs on a device of its own.
        """

    def reply_begins(self) -> None:
        """A reply is asked for."""

    def reply_cut(self) -> None:
        """A reply was cut before its end was heard."""

    def rank(self, work: Work, now: MonoNs, unit_ns: int) -> Rank:
        """Return class and order of a piece of work; smaller is served first, HELD is not served.

        Args:
            work: what is ranked.
            now: the present.
            unit_ns: time until one unit of it would reach the listener, later stages included.
        """
