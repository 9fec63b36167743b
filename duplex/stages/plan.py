"""What a stage does next: a bounded queue ordered by urgency. Pure; the runners execute the plans.

A cut drops queued work of older epochs at once. HELD work is never taken, nor does it ride along in a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from duplex.pacing.urgency import Rank, Urgency, rank
from duplex.payloads import Job, JobId, StageError, media_of
from duplex.stages.contract import NodeSpec
from duplex.units import MonoNs, Samples, ms_from_samples, ns_from_seconds, samples_from_ms

Ranker = Callable[[Job, MonoNs, int], Rank]
"""(job, now, ns of one unit) → rank; a scheduling policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One decision of a stage."""

    batch: tuple[Job, ...]
    """To run now; empty when nothing is due."""
    wake_at: MonoNs | None
    """When held work becomes due, if nothing happens before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """A snapshot of a queue."""

    jobs: int
    media_ms: int


def listener_ranker(first_deadline_ns: int) -> Ranker:
    """Return our policy: urgency in terms of the listener (see `duplex.pacing.urgency`)."""
    return lambda job, now, unit_ns: rank(job.pace, now, unit_ns, first_deadline_ns)


def fcfs_ranker() -> Ranker:
    """Return first come, first served, as engines serve by themselves; for comparison."""
    return lambda job, now, unit_ns: (Urgency.PACED, job.id)


class StageQueue:
    """Work that waits for one stage.

    Args:
        spec: the stage's declaration.
        ranker: the scheduling policy.
        media_ms_max: bound on the media that waits; overflow rule: `reject`.
        jobs_max: bound on jobs that carry no media (clauses, prompts); overflow rule: `reject`.
    """

    def __init__(self, spec: NodeSpec, ranker: Ranker, media_ms_max: int, jobs_max: int = 4096) -> None:
        self.spec = spec
        self._ranker = ranker
        self._media_max = samples_from_ms(media_ms_max)
        self._jobs_max = jobs_max
        self._jobs: dict[JobId, Job] = {}
        self._media = 0

    def put(self, job: Job) -> StageError | None:
        """Queue a job, or say why not; a refused job changes nothing."""
        if not isinstance(job.payload, self.spec.takes):
            return StageError(kind="refused", reason=f"{self.spec.name} takes {self.spec.takes.__name__}")
        media = media_of(job.payload)
        if len(self._jobs) >= self._jobs_max or (self._jobs and self._media + media > self._media_max):
            return StageError(kind="refused", reason=f"the queue of {self.spec.name} is full")
        self._jobs[job.id] = job
        self._media += media
        return None

    def plan(self, now: MonoNs, step_s: float, limit: int | None = None) -> Plan:
        """Take the next batch out of the queue.

        Args:
            now: the present.
            step_s: measured time of one step.
            limit: jobs at most, if less than the stage's own bound.
        """
        if not self._jobs:
            return Plan(batch=(), wake_at=None)
        unit_ns = ns_from_seconds(step_s)
        ranked = sorted((self._ranker(job, now, unit_ns), job.id, job) for job in self._jobs.values())
        due = [job for (urgency, _), _, job in ranked if urgency is not Urgency.HELD]
        held = [key for (urgency, key), _, _ in ranked if urgency is Urgency.HELD]
        wake_at = MonoNs(min(held)) if held else None
        if not due:
            return Plan(batch=(), wake_at=wake_at)
        room = self.spec.batch_max if limit is None else min(limit, self.spec.batch_max)
        key = self.spec.batch_key(due[0])
        batch = tuple([job for job in due if self.spec.batch_key(job) == key][:room])
        for job in batch:
            self._remove(job.id)
        return Plan(batch=batch, wake_at=wake_at)

    def cut(self, session: str, lane: int, epoch: int) -> tuple[Job, ...]:
        """Drop and return the lane's jobs that are older than `epoch`."""
        return self._drop(
            lambda job: job.address.session == session and job.address.lane == lane and job.address.epoch < epoch
        )

    def drop(self, job: JobId) -> bool:
        """Drop one job; return whether it was there."""
        return bool(self._drop(lambda queued: queued.id == job))

    def release(self, session: str) -> tuple[Job, ...]:
        """Drop and return everything of a session."""
        return self._drop(lambda job: job.address.session == session)

    def drain(self) -> tuple[Job, ...]:
        """Drop and return everything."""
        return self._drop(lambda job: True)

    def stats(self) -> QueueStats:
        """Return a snapshot."""
        return QueueStats(jobs=len(self._jobs), media_ms=ms_from_samples(Samples(self._media)))

    def _drop(self, stale: Callable[[Job], bool]) -> tuple[Job, ...]:
        dropped = tuple(job for job in self._jobs.values() if stale(job))
        for job in dropped:
            self._remove(job.id)
        return dropped

    def _remove(self, job: JobId) -> None:
        self._media -= media_of(self._jobs.pop(job).payload)
