"""Who begins when, and how a ramp climbs: pure.

Open arrivals come whatever the server does. A closed loop has a number of talkers at once: the next session begins when
one ends, after a refusal no sooner than the server asks for.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from loadgen import generate
from loadgen.live.options import LiveOptions, Ramp, Slo, Transport
from loadgen.live.rows import SessionRow, TurnRow
from loadgen.live.worker import Assignment
from loadgen.trace import Trace

_RETRY_S_MIN = 1.0
_RETRY_S_MAX = 30.0


def assignments(trace: Trace, options: LiveOptions) -> Iterator[Assignment]:
    """Give the trace's sessions in order, over and over, each under a name of its own."""
    kinds: tuple[Transport, ...] = ("webrtc", "websocket") if options.transport == "mixed" else (options.transport,)
    number = 0
    while True:
        for session in trace.sessions:
            again = number // len(trace.sessions)
            name = f"{session.session}#{again + 1}" if again else session.session
            yield Assignment(name=name, trace=session, transport=kinds[number % len(kinds)])
            number += 1


def arrivals(trace: Trace, options: LiveOptions) -> Iterator[float]:
    """Give the seconds at which sessions begin: the trace's own, or drawn anew at a rate with the trace's burstiness."""
    if options.rate is not None:
        yield from generate.arrivals(options.rate, trace.header.arrivals_cv, random.Random(options.seed))
    yield from (session.at_s for session in trace.sessions[: options.sessions])


def retry_s(row: SessionRow) -> float:
    """Return how long a talker of a closed loop waits after a session before it begins the next."""
    if row.status in ("ended", "lost"):
        return 0.0
    return min(max(row.retry_after_s or 0.0, _RETRY_S_MIN), _RETRY_S_MAX)


def miss(row: TurnRow, slo: Slo) -> str:
    """Return why a caller did not get in this turn what is owed; empty when all was given.

    An answer that began before the turn's end was not late.
    """
    if row.status != "answered":
        return row.status
    if row.ttfas_s is not None and row.ttfas_s > slo.ttfas_s:
        return "late"
    return "underrun" if row.underrun_s_max > slo.underrun_s else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a stretch of the run came to."""

    turns: int
    share: float
    """Of them within the SLO; 0 without a turn."""
    holds: bool
    misses: dict[str, int]
    """By reason: unanswered, refused, lost, late, underrun."""


def verdict(rows: Sequence[TurnRow], slo: Slo) -> Verdict:
    """Judge some turns."""
    misses = Counter(reason for row in rows if (reason := miss(row, slo)))
    share = 1 - misses.total() / len(rows) if rows else 0.0
    return Verdict(turns=len(rows), share=share, holds=bool(rows) and share >= slo.share, misses=dict(misses))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One load and how it went."""

    load: float
    from_s: float
    to_s: float
    verdict: Verdict


@dataclass(slots=True, kw_only=True)
class Climb:
    """The ramp: up by a step while the SLO holds; a step that fails is measured again, and failing twice ends it."""

    ramp: Ramp
    load: float
    """To be measured next."""
    unit: Literal["talkers", "sessions_per_s"]
    steps: list[Step] = field(default_factory=list)

    @property
    def held(self) -> float | None:
        """The highest load at which the SLO held; None when it never did."""
        return max((step.load for step in self.steps if step.verdict.holds), default=None)

    @property
    def over(self) -> bool:
        """Whether it has come to its end."""
        failed = [not step.verdict.holds for step in self.steps]
        return failed[-2:] == [True, True] or self.load > self.ramp.most

    def take(self, step: Step) -> None:
        """Take a step's outcome and choose the next load."""
        self.steps.append(step)
        if step.verdict.holds:
            self.load += self.ramp.by
