"""Runs a batch stage: plan, step, deliver, again. One step at a time, on the stage's own thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from duplex.pacing.policy import Work
from duplex.payloads import JobId, Pace, Payload, StageError
from duplex.stages.contract import BatchStage, StageGoneError, StageMaker, is_engine
from duplex.stages.plan import plan_batch
from duplex.stages.runner import RunnerContext, StageRunner, name_of
from duplex.units import MonoNs, seconds_from_ns


class BatchRunner(StageRunner):
    """One batch stage."""

    def __init__(self, stage: BatchStage, context: RunnerContext, maker: StageMaker | None = None) -> None:
        super().__init__(stage, context, maker)
        self._idle_step_s_max = context.settings.idle_step_ms_max / 1000
        self._stepping = False
        """A step is under way, be it only to release sessions."""
        self._batch: tuple[Work, ...] = ()
        """What is in it."""
        self._began_at = MonoNs(0)
        self._cancel_timeout: Callable[[], None] = lambda: None
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
        if self._stepping or not self._watchdog.up:
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
        self._stepping, self._batch, self._began_at = True, plan.batch, now
        batch = plan.batch
        self._busy.set(len(batch), now)
        for work in batch:
            self._queue.take(work)
            self._began(work, now)
        stage, life = self._watchdog.stage, self._watchdog.life
        assert not is_engine(stage), "a batch stage is replaced by a batch stage"
        self._cancel_timeout = self._executor.call_at(
            MonoNs(now + self._timeout_ns), lambda: self._watchdog.failed("hang")
        )
        self._executor.run(
            spec.name, lambda: _step(stage, batch, releases), lambda results: self._finished(life, batch, results)
        )

    def _lose(self) -> list[tuple[Work, MonoNs, int]]:
        self._cancel_timeout()
        batch, self._batch = self._batch, ()
        self._stepping = False
        return [(work, self._began_at, len(batch)) for work in batch]

    def _finished(self, life: int, batch: tuple[Work, ...], results: Any) -> None:
        if life != self._watchdog.life:
            return  # the stage was replaced meanwhile, and the batch has failed
        if isinstance(results, StageGoneError):
            self._watchdog.failed(results.why)  # and with it the batch
            return
        self._cancel_timeout()
        began = self._began_at
        self._stepping, self._batch = False, ()
        now = self._executor.now()
        self._busy.set(0, now)
        error = results if isinstance(results, BaseException) else None
        if error is not None:
            reason = f"{self.spec.name}: {name_of(error)}"
            results = [StageError(reason=reason)] * len(batch)
            self._failed_step(error)  # first, so that nothing new is begun at a stage that goes
        elif batch:
            self._raised = 0
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


def _step(stage: BatchStage, batch: Sequence[Work], releases: Sequence[str]) -> Sequence[Payload | StageError]:
    for session in releases:
        stage.release(session)
    return stage.step([work.job for work in batch]) if batch else ()
