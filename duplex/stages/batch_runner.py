"""Runs a batch stage: plan, step, deliver, again. One step at a time, on the stage's own thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from duplex.pacing.policy import Work
from duplex.payloads import JobId, Pace, Payload, StageError
from duplex.stages.contract import BatchStage
from duplex.stages.plan import plan_batch
from duplex.stages.runner import RunnerContext, StageRunner
from duplex.units import MonoNs, seconds_from_ns


class BatchRunner(StageRunner):
    """One batch stage."""

    def __init__(self, stage: BatchStage, context: RunnerContext) -> None:
        super().__init__(stage.spec, context)
        self._stage = stage
        self._idle_step_s_max = context.idle_step_s_max
        self._stepping = False
        """A step is under way, be it only to release sessions."""
        self._releases: list[str] = []

    def cut(self, session: str, lane: int, epoch: int) -> None:
        """Drop what is queued of older epochs; a result in flight is turned away at the gate."""
        self._forget(self._queue.cut(session, lane, epoch))

    def drop(self, job: JobId) -> None:
        """Drop one job, if it still waits."""
        self._forget(self._queue.drop(job))

    def repace(self, job: JobId, pace: Pace) -> None:
        """Renew a waiting job's pace."""
        if self._queue.repace(job, pace):
            self.kick()

    def release(self, session: str) -> None:
        """Forget a session, here and in the stage."""
        self._forget(self._queue.release(session))
        self._releases.append(session)
        self.kick()

    @property
    def idle(self) -> bool:
        """Nothing queued, nothing running."""
        return not self._stepping and self._queue.stats().jobs == 0

    @property
    def _is_free(self) -> bool:
        """Such a step is over before anybody misses it, since it cannot be stopped."""
        return self.idle and self.step_s <= self._idle_step_s_max

    def kick(self) -> None:
        """Run the next batch, unless one is running."""
        if self._stepping:
            return
        now = self._executor.now()
        spec = self.spec
        plan = plan_batch(
            self._queue.works, now, self._unit_ns, self._policy, spec.batch_max, spec.batch_key, self._shares
        )
        releases, self._releases = self._releases, []
        if not plan.batch and not releases:
            self._wake(plan.wake_at)
            return
        self._wake(None)
        self._stepping = True
        batch = plan.batch
        self._busy.set(len(batch), now)
        for work in batch:
            self._queue.take(work)
            self._began(work, now)
        cancel = self._executor.call_at(MonoNs(now + self._timeout_ns), lambda: self._timed_out(batch, now))
        self._executor.run(
            spec.name,
            lambda: self._step(batch, releases),
            lambda results: self._finished(batch, results, now, cancel),
        )

    def _step(self, batch: Sequence[Work], releases: Sequence[str]) -> Sequence[Payload | StageError]:
        for session in releases:
            self._stage.release(session)
        return self._stage.step([work.job for work in batch]) if batch else ()

    def _timed_out(self, batch: tuple[Work, ...], began: MonoNs) -> None:
        """The step, and what waits behind it, fails; the result is not wanted when it comes at last."""
        self._hung = True
        for work in batch:
            self._fail(work, began)
        for work in self._queue.drain():
            self._fail(work, None)

    def _fail(self, work: Work, began: MonoNs | None) -> None:
        self._ended(work, began, "failed")
        if self.result_gate.admits(work.job.address):
            self._deliver(work.job, StageError(kind="timeout", reason=f"{self.spec.name} made no progress"))

    def _finished(self, batch: tuple[Work, ...], results: Any, began: MonoNs, cancel: Callable[[], None]) -> None:
        cancel()
        self._stepping = False
        now = self._executor.now()
        self._busy.set(0, now)
        if self._hung:
            self._hung = False
            self.kick()
            return
        if isinstance(results, BaseException):
            reason = f"{self.spec.name}: {type(results).__name__}"
            results = [StageError(reason=reason)] * len(batch)
        elif batch:
            self._computed(began)
            self._stepped(seconds_from_ns(MonoNs(now - began)))
        for work, result in zip(batch, results, strict=True):
            self._give(work, result, began, len(batch))
        self.kick()

    def _give(self, work: Work, result: Payload | StageError, began: MonoNs, batch: int) -> None:
        if not self.result_gate.admits(work.job.address):
            self._ended(work, began, "stale", batch)
            return
        self._ended(work, began, "failed" if isinstance(result, StageError) else "done", batch)
        self._deliver(work.job, result)
