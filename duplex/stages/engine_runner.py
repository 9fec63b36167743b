"""Runs an engine stage: submits, pauses, resumes and reorders by plan, aborts what was cut.

waiting ──start──► running ⇄ paused        a job without output or sign of life while it runs fails after its timeout; if
                      └──► last output, error, or abort      no other job had any either, the engine hangs, and is replaced
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from duplex.pacing.policy import Work, WorkState
from duplex.payloads import Alive, Job, JobId, Pace, Payload, StageError
from duplex.stages.contract import EngineStage, StageMaker, is_engine, is_last
from duplex.stages.plan import plan_engine
from duplex.stages.runner import Outcome, RunnerContext, StageRunner, name_of
from duplex.units import MonoNs, seconds_from_ns


@dataclass(slots=True, kw_only=True, eq=False)
class _Run:
    work: Work
    began: MonoNs
    batch: int
    last_output: MonoNs
    outputs: int = 0
    last_sign: MonoNs | None = None
    """Of life: an output, or word that it is at work."""
    cancel_watchdog: Callable[[], None] | None = None


class EngineRunner(StageRunner):
    """One engine stage."""

    def __init__(self, stage: EngineStage, context: RunnerContext, maker: StageMaker | None = None) -> None:
        super().__init__(stage, context, maker)
        self._runs: dict[JobId, _Run] = {}
        self._order: tuple[JobId, ...] = ()
        self._planning = False

    def cut(self, session: str, lane: int, epoch: int) -> None:
        """Drop what is queued and abort what runs of older epochs."""
        self._forget(self._queue.cut(session, lane, epoch))
        self._abort(
            lambda job: job.address.session == session and job.address.lane == lane and job.address.epoch < epoch
        )

    def drop(self, job: JobId) -> None:
        """Drop or abort one job."""
        self._forget(self._queue.drop(job))
        self._abort(lambda running: running.id == job)

    def repace(self, job: JobId, pace: Pace) -> None:
        """Renew the pace of a job that waits, runs or is paused."""
        run = self._runs.get(job)
        if run is not None:
            old = run.work.pace
            begins = (old.dry_at is None and pace.dry_at is not None) or (old.speculative and not pace.speculative)
            run.work.pace = pace
            held = pace.blocked or (pace.hold_until is not None and pace.hold_until > self._executor.now())
            if run.work.state is WorkState.RUNNING and not held and not begins:
                return  # it goes on as it does
        elif not self._queue.repace(job, pace):
            return
        self.kick()

    def release(self, session: str) -> None:
        """Forget a session, here and in the stage."""
        self._forget(self._queue.release(session))
        self._abort(lambda job: job.address.session == session)
        self._tell(lambda engine: engine.release(session))

    @property
    def idle(self) -> bool:
        """Nothing queued, nothing running."""
        return not self._runs and self._queue.stats().jobs == 0

    @property
    def _is_free(self) -> bool:
        """What is paused is far enough ahead of its listener; it is told apart from what waits."""
        computing = any(run.work.state is WorkState.RUNNING for run in self._runs.values())
        return not computing and self._queue.stats().jobs == 0

    def kick(self) -> None:
        """Bring the engine to what the plan says."""
        if self._planning or not self._watchdog.up:
            return
        now = self._executor.now()
        works = [*(run.work for run in self._runs.values()), *self._queue.works]
        spec = self.spec
        plan = plan_engine(works, now, self._unit_ns, self._policy, spec.batch_max, spec.pausable, self._shares)
        self._wake(plan.wake_at)
        self._planning = True  # an engine may answer at once
        try:
            for work in plan.abort:
                self._finish(self._runs[work.job.id], "dropped")
                self._stop(work.job.id)
            for work in plan.pause:
                work.state = WorkState.PAUSED
                self._disarm(self._runs[work.job.id])
                self._tell(_pause(work.job.id))
            for work in plan.resume:
                work.state = WorkState.RUNNING
                run = self._runs[work.job.id]
                run.last_output = now
                self._arm(run)
                self._tell(_resume(work.job.id))
            for work in plan.start:
                self._start(work, now, len(plan.order))
        finally:
            self._planning = False
        order = tuple(work.job.id for work in plan.order)
        if order != self._order:
            self._order = order
            self._tell(lambda engine: engine.reorder(order))
        self._busy.set(len(order), now)
        for work in plan.abort:
            preempted = StageError(kind="preempted", reason=f"{spec.name} serves others")
            if self.result_gate.admits(work.job.address):
                self._deliver(work.job, preempted)

    def _start(self, work: Work, now: MonoNs, batch: int) -> None:
        self._queue.take(work)
        self._began(work, now)
        run = self._runs[work.job.id] = _Run(work=work, began=now, batch=batch, last_output=now)
        self._arm(run)
        self._tell(
            lambda engine: engine.submit(work.job, lambda out: self._executor.post(lambda: self._emitted(run, out))),
            run,
        )

    def _emitted(self, run: _Run, out: Payload | StageError) -> None:
        job, life = run.work.job, self._watchdog.life
        last = is_last(out)
        if isinstance(out, Alive):
            self._shown_alive(run)
            return
        if self._runs.get(job.id) is run:
            now = run.last_sign = self._executor.now()
            if run.work.state is WorkState.RUNNING:
                self._raised = 0
                if run.outputs:  # the first one has its prompt in it
                    self._stepped(seconds_from_ns(MonoNs(now - run.last_output)))
                run.last_output = now
            run.outputs += 1
            if last:
                self._computed(run.began)
                stale = not self.result_gate.alive(job.address)
                self._finish(run, "stale" if stale else "failed" if isinstance(out, StageError) else "done")
            elif run.work.state is WorkState.RUNNING:
                self._arm(run)
        if self.result_gate.admits(job.address):
            self._deliver(job, out)
        if isinstance(out, StageError) and out.kind == "memory" and life == self._watchdog.life:
            self._watchdog.failed("memory")
        if last:
            self.kick()

    def _shown_alive(self, run: _Run) -> None:
        if self._runs.get(run.work.job.id) is not run:
            return
        run.last_sign = self._executor.now()
        if run.work.state is WorkState.RUNNING:
            self._arm(run)

    def _finish(self, run: _Run, outcome: Outcome) -> None:
        self._disarm(run)
        del self._runs[run.work.job.id]
        self._ended(run.work, run.began, outcome, run.batch)

    def _abort(self, which: Callable[[Job], bool]) -> None:
        for run in [run for run in self._runs.values() if which(run.work.job)]:
            self._finish(run, "dropped")
            self._stop(run.work.job.id)
        self.kick()

    def _arm(self, run: _Run) -> None:
        self._disarm(run)
        when = MonoNs(self._executor.now() + self._timeout_ns)
        run.cancel_watchdog = self._executor.call_at(when, lambda: self._job_hung(run))

    def _disarm(self, run: _Run) -> None:
        if run.cancel_watchdog is not None:
            run.cancel_watchdog()
            run.cancel_watchdog = None

    def _job_hung(self, run: _Run) -> None:
        """A job made no progress; where no other has made any either, it is the engine that hangs."""
        job = run.work.job
        if self._runs.get(job.id) is not run:
            return
        since = self._executor.now() - self._timeout_ns
        if not any(other.last_sign is not None and other.last_sign > since for other in self._runs.values()):
            self._watchdog.failed("hang")
            return
        self._finish(run, "failed")
        self._stop(job.id)
        if self.result_gate.admits(job.address):
            self._deliver(job, StageError(kind="timeout", reason=f"{self.spec.name} made no progress"))
        self.kick()

    def _lose(self) -> list[tuple[Work, MonoNs, int]]:
        runs, self._runs, self._order = self._runs, {}, ()
        for run in runs.values():
            self._disarm(run)
            self._stop(run.work.job.id)  # for a stage that is used again
        return [(run.work, run.began, run.batch) for run in runs.values()]

    def _stop(self, job: JobId) -> None:
        self._tell(lambda engine: engine.abort(job))

    def _tell(self, call: Callable[[EngineStage], None], run: _Run | None = None) -> None:
        """Call the engine; if it raises, that is dealt with as soon as the present plan is carried out."""
        engine, life = self._watchdog.stage, self._watchdog.life
        assert is_engine(engine), "an engine is replaced by an engine"
        try:
            call(engine)
        except Exception as error:  # noqa: BLE001  a pack's own code: its stage fails, and no session's actor
            failure = error
            self._executor.post(lambda: self._call_failed(life, failure, run))

    def _call_failed(self, life: int, error: Exception, run: _Run | None) -> None:
        if life != self._watchdog.life:
            return
        if run is not None and self._runs.get(run.work.job.id) is run:
            self._disarm(run)
            del self._runs[run.work.job.id]
            self._fail(run.work, run.began, run.batch, StageError(reason=f"{self.spec.name}: {name_of(error)}"))
        self._failed_step(error)
        self.kick()


def _pause(job: JobId) -> Callable[[EngineStage], None]:
    return lambda engine: engine.pause(job)


def _resume(job: JobId) -> Callable[[EngineStage], None]:
    return lambda engine: engine.resume(job)
