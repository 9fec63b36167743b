"""What sessions cost a stage, from counts that only grow. Pure; `duplex.pacing.admission` decides by it.

- A batch stage is measured by what its jobs would cost in full batches: one that is busy all the time with batches of one
  has room. The time of a step is fitted as a + b × batch; where batches never differ nothing is known of a, and each job
  counts with all the time that its own step took, so that the stage counts with its busy time.
- An engine is measured by its slots: it batches by itself, and is busy as soon as one job runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

LOOP: Final = "loop"
"""Name of the event loop among the loads."""
_RECENT_S = 5.0
"""Half-life of what a stage does at this moment: what is full is full, whatever was believed of sessions."""
_RIDGE = 0.002
"""How firmly a step's cost is put down to its jobs while batches hardly differ."""


class Load(Protocol):
    """How busy something is; the counts grow over its life (`duplex.stages.runner.StageLoad`, `LoopLoad`)."""

    @property
    def name(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def slots(self) -> int:
        """Jobs in one step, or running at once."""

    @property
    def bytes_per_session(self) -> int: ...
    @property
    def busy_s(self) -> float:
        """Time in which it computed anything."""

    @property
    def slot_busy_s(self) -> float:
        """The same, summed over the jobs in it."""

    @property
    def steps(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLoad:
    """The event loop as a load: one thread, its own CPU time."""

    busy_s: float
    name: str = LOOP
    device: str = "cpu"
    slots: int = 1
    bytes_per_session: int = 0
    steps: int = 0

    @property
    def slot_busy_s(self) -> float:
        """As busy: it does one thing at a time."""
        return self.busy_s


@dataclass(slots=True)
class _Use:
    """What a stage did: a sum over a decaying window."""

    busy_s: float = 0.0
    slot_s: float = 0.0
    jobs: float = 0.0

    def add(self, keep: float, more: _Use) -> None:
        self.busy_s = keep * self.busy_s + more.busy_s
        self.slot_s = keep * self.slot_s + more.slot_s
        self.jobs = keep * self.jobs + more.jobs


class Meter:
    """What one stage costs."""

    def __init__(self, load: Load, engine: bool) -> None:
        self._slots = max(1, load.slots)
        self._engine = engine
        self._counts = (load.busy_s, load.slot_busy_s, load.steps)
        self._learned = _Use()
        self._recent = _Use()
        self._recent_s = 0.0
        self._step_cost = _StepCost()

    def take(self, load: Load, passed_s: float, keep: float | None, window_s: float) -> None:
        """Take the growth of the counts since the last time.

        Args:
            load: the counts.
            passed_s: time in which they grew.
            keep: what is kept of the sessions' use so far; None: nothing is learned of sessions from this time.
            window_s: half of what is known of a step's cost is from the last this many seconds with steps.
        """
        counts = (load.busy_s, load.slot_busy_s, load.steps)
        busy_s, slot_s, steps = (new - old for new, old in zip(counts, self._counts, strict=True))
        self._counts = counts
        jobs = steps * slot_s / busy_s if busy_s > 0 else 0.0  # also those whose result was stale by then
        use = _Use(busy_s, slot_s, jobs)
        if keep is not None:
            self._learned.add(keep, use)
        lately = 0.5 ** (passed_s / _RECENT_S)
        self._recent.add(lately, use)
        self._recent_s = lately * self._recent_s + passed_s
        if steps:
            self._step_cost.add(0.5 ** (passed_s / window_s), steps, jobs, busy_s)

    @property
    def used(self) -> float:
        """Seconds of the stage's whole capacity that the sessions in the window took."""
        return self._capacity_s(self._learned)

    @property
    def threads(self) -> float:
        """Seconds of a thread that they took: a running engine keeps one, however many jobs it has."""
        return self._learned.busy_s if self._engine else self.used

    @property
    def recent(self) -> float:
        """Share of the capacity that was used in the last seconds."""
        return self._capacity_s(self._recent) / self._recent_s if self._recent_s else 0.0

    @property
    def recent_threads(self) -> float:
        """Threads that were kept in the last seconds."""
        if not self._recent_s:
            return 0.0
        return (self._recent.busy_s if self._engine else self._capacity_s(self._recent)) / self._recent_s

    def _capacity_s(self, use: _Use) -> float:
        if self._engine:
            return use.slot_s / self._slots
        if self._slots == 1 or not use.jobs:
            return use.busy_s
        return min(use.busy_s, use.jobs * self._step_cost.job_s(self._slots))


class _StepCost:
    """A batch stage's time for one step, a + b × batch, by least squares over the intervals: busy = a × steps + b × jobs."""

    def __init__(self) -> None:
        self._steps2 = self._steps_jobs = self._jobs2 = self._steps_busy = self._jobs_busy = 0.0

    def add(self, keep: float, steps: float, jobs: float, busy_s: float) -> None:
        self._steps2 = keep * self._steps2 + steps * steps
        self._steps_jobs = keep * self._steps_jobs + steps * jobs
        self._jobs2 = keep * self._jobs2 + jobs * jobs
        self._steps_busy = keep * self._steps_busy + steps * busy_s
        self._jobs_busy = keep * self._jobs_busy + jobs * busy_s

    def job_s(self, slots: int) -> float:
        """Return a job's part of a full step; while batches hardly differ, all that its own step took."""
        steps2 = (1 + _RIDGE) * self._steps2
        determinant = steps2 * self._jobs2 - self._steps_jobs**2
        if determinant <= 0:
            return 0.0  # no step has taken any time
        a = (self._steps_busy * self._jobs2 - self._jobs_busy * self._steps_jobs) / determinant
        b = (steps2 * self._jobs_busy - self._steps_jobs * self._steps_busy) / determinant
        if b < 0:
            return self._steps_busy / self._steps2 / slots
        if a < 0:
            return self._jobs_busy / self._jobs2
        return a / slots + b
