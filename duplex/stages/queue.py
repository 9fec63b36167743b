"""The work of one stage: bounded, by job id. A cut drops what waits of older epochs at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from duplex.pacing.policy import Work, WorkState
from duplex.payloads import Job, JobId, Pace, StageError, media_of
from duplex.stages.contract import NodeSpec
from duplex.units import MonoNs, Samples, ms_from_samples, samples_from_ms

_KEPT_SESSIONS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """A snapshot of a queue."""

    jobs: int
    media_ms: int


class StageQueue:
    """Work that waits for one stage.

    Args:
        spec: the stage's declaration.
        media_ms_max: bound on the media that waits; overflow rule: `reject`.
        jobs_max: bound on jobs that carry no media (clauses, prompts); overflow rule: `reject`.
    """

    def __init__(self, spec: NodeSpec, media_ms_max: int, jobs_max: int = 4096) -> None:
        self.spec = spec
        self._media_max = samples_from_ms(media_ms_max)
        self._jobs_max = jobs_max
        self._works: dict[JobId, Work] = {}
        self._media = 0
        self._services = 0
        self._served: dict[str, int] = {}

    def put(self, job: Job, now: MonoNs) -> StageError | None:
        """Queue a job, or say why not; a refused job changes nothing."""
        if not isinstance(job.payload, self.spec.takes):
            return StageError(kind="refused", reason=f"{self.spec.name} takes {self.spec.takes.__name__}")
        media = media_of(job.payload)
        if len(self._works) >= self._jobs_max or (self._works and self._media + media > self._media_max):
            return StageError(kind="refused", reason=f"the queue of {self.spec.name} is full")
        served = self._served.get(job.address.session, 0)
        self._works[job.id] = Work(
            job=job, pace=job.pace, arrived=now, served=served, dedicated=self.spec.device != "cpu"
        )
        self._media += media
        return None

    @property
    def works(self) -> Iterable[Work]:
        """What waits, oldest first."""
        return self._works.values()

    def repace(self, job: JobId, pace: Pace) -> bool:
        """Renew a job's pace; return whether it waits here."""
        work = self._works.get(job)
        if work is not None:
            work.pace = pace
        return work is not None

    def take(self, work: Work) -> None:
        """Take work out to be served."""
        self._remove(work.job.id)
        work.state = WorkState.RUNNING
        self._services += 1
        session = work.job.address.session
        self._served.pop(session, None)
        self._served[session] = self._services
        if len(self._served) > _KEPT_SESSIONS:
            del self._served[next(iter(self._served))]

    def cut(self, session: str, lane: int, epoch: int) -> tuple[Work, ...]:
        """Drop and return the lane's work that is older than `epoch`."""
        return self._drop(
            lambda job: job.address.session == session and job.address.lane == lane and job.address.epoch < epoch
        )

    def drop(self, job: JobId) -> tuple[Work, ...]:
        """Drop and return one job's work, if it waits here."""
        return (self._remove(job),) if job in self._works else ()

    def release(self, session: str) -> tuple[Work, ...]:
        """Drop and return everything of a session."""
        self._served.pop(session, None)
        return self._drop(lambda job: job.address.session == session)

    def drain(self) -> tuple[Work, ...]:
        """Drop and return everything."""
        return self._drop(lambda job: True)

    def stats(self) -> QueueStats:
        """Return a snapshot."""
        return QueueStats(jobs=len(self._works), media_ms=ms_from_samples(Samples(self._media)))

    def _drop(self, stale: Callable[[Job], bool]) -> tuple[Work, ...]:
        return tuple(self._remove(job.id) for job in [work.job for work in self._works.values()] if stale(job))

    def _remove(self, job: JobId) -> Work:
        work = self._works.pop(job)
        self._media -= media_of(work.job.payload)
        return work
