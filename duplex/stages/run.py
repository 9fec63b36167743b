"""Runners: they execute plans. One per stage; all of their state lives on the loop's thread.

A runner knows its stage, its queue and the lanes' epochs; an `Executor` knows threads and clocks, so that the very same
runners serve on threads and on simulated time. Two checks of the epoch stand here, one on each side of the compute:

    submit ──[gate: queue]──► StageQueue ──plan──► step or engine ──[gate: result]──► deliver(job, payload)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from duplex.config import StageSettings
from duplex.payloads import SCHEMA_VERSION, Address, Audio, Job, JobId, Payload, StageError, TextDelta
from duplex.stages.contract import BatchStage, EngineStage, NodeSpec, Role, is_engine
from duplex.stages.graph import StageGraph
from duplex.stages.plan import QueueStats, Ranker, StageQueue
from duplex.units import MonoNs, ns_from_seconds, seconds_from_ns

Deliver = Callable[[Job, Payload | StageError], None]
"""Hands an output to the session that submitted the job."""
Observe = Callable[[str, float, dict[str, str]], None]
"""Takes a measure: name, value in base units, labels."""
_STEP_SMOOTHING = 0.2
"""Weight of the newest step in the measured time of a step."""


class Executor(Protocol):
    """Where a stage's compute happens, and what time it is."""

    def now(self) -> MonoNs: ...

    def run(self, stage: str, step: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Run `step` on the stage's thread; later call `done` on the loop's with its result or its exception."""

    def post(self, call: Callable[[], None]) -> None:
        """Run `call` on the loop's thread soon; callable from any thread."""

    def call_at(self, when: MonoNs, call: Callable[[], None]) -> Callable[[], None]:
        """Run `call` on the loop's thread at `when`; return what cancels it."""


class Lanes:
    """The epochs of all lanes of the open sessions; a lane that nobody cut is at 0."""

    def __init__(self) -> None:
        self._epochs: dict[str, dict[int, int]] = {}

    def open(self, session: str) -> None:
        """Let work of a session pass."""
        self._epochs[session] = {}

    def release(self, session: str) -> None:
        """Let nothing of a session pass any more."""
        self._epochs.pop(session, None)

    def cut(self, session: str, lane: int, epoch: int) -> None:
        """Raise a lane's epoch; never lowers it."""
        lanes = self._epochs.get(session)
        if lanes is not None:
            lanes[lane] = max(epoch, lanes.get(lane, 0))

    def epoch(self, session: str, lane: int) -> int:
        """Return a lane's epoch."""
        return self._epochs.get(session, {}).get(lane, 0)

    def alive(self, address: Address) -> bool:
        """Return whether the session is open and nobody has cut the lane since the work was made."""
        lanes = self._epochs.get(address.session)
        return lanes is not None and address.epoch >= lanes.get(address.lane, 0)


class Gate:
    """One check of the epoch on one edge; counts what it turned away."""

    def __init__(self, edge: str, lanes: Lanes) -> None:
        self.edge = edge
        self.stale = 0
        self._lanes = lanes

    def admits(self, address: Address) -> bool:
        """Return whether work for `address` is alive."""
        if self._lanes.alive(address):
            return True
        self.stale += 1
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerContext:
    """What all runners of a process share."""

    lanes: Lanes
    executor: Executor
    deliver: Deliver
    observe: Observe
    ranker: Ranker
    queue_ms_max: int
    step_timeout_s: float


class _Runner:
    """What both kinds of runner have in common: a queue behind a gate."""

    def __init__(self, spec: NodeSpec, context: RunnerContext) -> None:
        self.spec = spec
        self.queue_gate = Gate(f"{spec.name}.queue", context.lanes)
        self.result_gate = Gate(f"{spec.name}.result", context.lanes)
        self._queue = StageQueue(spec, context.ranker, context.queue_ms_max)
        self._executor = context.executor
        self._deliver = context.deliver
        self._observe = context.observe
        self._timeout_ns = ns_from_seconds(context.step_timeout_s)
        self._submitted: dict[JobId, MonoNs] = {}
        self._hung = False
        """A step has run out of time and not returned yet: nothing is taken on meanwhile."""

    def submit(self, job: Job) -> None:
        """Queue a job; a refusal comes back as its output, stale work vanishes."""
        refusal: StageError | None = None
        if job.schema != SCHEMA_VERSION:
            refusal = StageError(kind="refused", reason=f"schema version {job.schema}, expected {SCHEMA_VERSION}")
        elif not self.queue_gate.admits(job.address):
            return
        elif self._hung:
            refusal = StageError(kind="unavailable", reason=f"{self.spec.name} makes no progress")
        else:
            refusal = self._queue.put(job)
        if refusal is not None:
            self._executor.post(lambda: self._deliver(job, refusal))
            return
        self._submitted[job.id] = self._executor.now()
        self._kick()

    def stats(self) -> QueueStats:
        """Return a snapshot of what waits."""
        return self._queue.stats()

    def _kick(self) -> None:
        raise NotImplementedError

    def _waited(self, job: Job, now: MonoNs) -> None:
        waited = seconds_from_ns(now - self._submitted.pop(job.id, now))
        self._observe("duplex_stage_queue_seconds", waited, {"stage": self.spec.name})

    def _computed(self, began: MonoNs) -> float:
        seconds = seconds_from_ns(self._executor.now() - began)
        self._observe("duplex_stage_compute_seconds", seconds, {"stage": self.spec.name})
        return seconds

    def _forget(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._submitted.pop(job.id, None)


class BatchRunner(_Runner):
    """Runs a batch stage: plan, step, deliver, again."""

    def __init__(self, stage: BatchStage, context: RunnerContext) -> None:
        super().__init__(stage.spec, context)
        self._stage = stage
        self._step_s = self.spec.step_s
        self._running: tuple[Job, ...] = ()
        self._releases: list[str] = []
        self._cancel_wake: Callable[[], None] | None = None

    def cut(self, session: str, lane: int, epoch: int) -> None:
        """Drop what is queued of older epochs; a result in flight is turned away at the gate."""
        self._forget(self._queue.cut(session, lane, epoch))

    def drop(self, job: JobId) -> None:
        self._queue.drop(job)
        self._submitted.pop(job, None)

    def release(self, session: str) -> None:
        """Forget a session, here and in the stage."""
        self._forget(self._queue.release(session))
        self._releases.append(session)
        self._kick()

    @property
    def idle(self) -> bool:
        return not self._running and self._queue.stats().jobs == 0

    def _kick(self) -> None:
        if self._running:
            return
        if self._cancel_wake is not None:
            self._cancel_wake()
            self._cancel_wake = None
        now = self._executor.now()
        plan = self._queue.plan(now, self._step_s)
        releases, self._releases = self._releases, []
        if not plan.batch and not releases:
            if plan.wake_at is not None:
                self._cancel_wake = self._executor.call_at(plan.wake_at, self._woken)
            return
        self._running = batch = plan.batch
        for job in batch:
            self._waited(job, now)
        cancel = self._executor.call_at(MonoNs(now + self._timeout_ns), lambda: self._timed_out(batch))
        self._executor.run(
            self.spec.name,
            lambda: self._step(batch, releases),
            lambda results: self._finished(batch, results, now, cancel),
        )

    def _woken(self) -> None:
        self._cancel_wake = None
        self._kick()

    def _step(self, batch: Sequence[Job], releases: Sequence[str]) -> Sequence[Payload | StageError]:
        for session in releases:
            self._stage.release(session)
        return self._stage.step(batch) if batch else ()

    def _timed_out(self, batch: tuple[Job, ...]) -> None:
        """The step, and what waits behind it, fails; the result is not wanted when it comes at last."""
        self._hung = True
        waiting = self._queue.drain()
        self._forget(waiting)
        for job in (*batch, *waiting):
            if self.result_gate.admits(job.address):
                self._deliver(job, StageError(kind="timeout", reason=f"{self.spec.name} made no progress"))

    def _finished(self, batch: tuple[Job, ...], results: Any, began: MonoNs, cancel: Callable[[], None]) -> None:
        cancel()
        self._running = ()
        if self._hung:
            self._hung = False
            self._kick()
            return
        if isinstance(results, BaseException):
            reason = f"{self.spec.name}: {type(results).__name__}"
            results = [StageError(reason=reason)] * len(batch)
        elif batch:
            self._step_s += _STEP_SMOOTHING * (self._computed(began) - self._step_s)
        for job, result in zip(batch, results, strict=True):
            if self.result_gate.admits(job.address):
                self._deliver(job, result)
        self._kick()


class EngineRunner(_Runner):
    """Runs an engine stage: submits by urgency up to its bound, aborts, pauses, resumes."""

    def __init__(self, stage: EngineStage, context: RunnerContext) -> None:
        super().__init__(stage.spec, context)
        self._stage = stage
        self._running: dict[JobId, Job] = {}
        self._paused: set[JobId] = set()
        self._watchdogs: dict[JobId, Callable[[], None]] = {}
        self._cancel_wake: Callable[[], None] | None = None

    def cut(self, session: str, lane: int, epoch: int) -> None:
        """Drop what is queued and abort what runs of older epochs."""
        self._forget(self._queue.cut(session, lane, epoch))
        self._abort(
            lambda job: job.address.session == session and job.address.lane == lane and job.address.epoch < epoch
        )

    def drop(self, job: JobId) -> None:
        """Drop or abort one job."""
        self._queue.drop(job)
        self._submitted.pop(job, None)
        self._abort(lambda running: running.id == job)

    def pause(self, job: JobId) -> None:
        """Stop a running job's generation until it is resumed; only where the stage is pausable."""
        if job in self._running and job not in self._paused:
            self._paused.add(job)
            self._disarm(job)
            self._stage.pause(job)

    def resume(self, job: JobId) -> None:
        if job in self._paused:
            self._paused.discard(job)
            self._arm(job)
            self._stage.resume(job)

    def release(self, session: str) -> None:
        """Forget a session, here and in the stage."""
        self._forget(self._queue.release(session))
        self._abort(lambda job: job.address.session == session)
        self._stage.release(session)

    @property
    def idle(self) -> bool:
        return not self._running and self._queue.stats().jobs == 0

    def _kick(self) -> None:
        if self._cancel_wake is not None:
            self._cancel_wake()
            self._cancel_wake = None
        while len(self._running) < self.spec.batch_max:
            plan = self._queue.plan(self._executor.now(), self.spec.step_s, limit=1)
            if not plan.batch:
                if plan.wake_at is not None:
                    self._cancel_wake = self._executor.call_at(plan.wake_at, self._woken)
                return
            self._start(plan.batch[0])

    def _woken(self) -> None:
        self._cancel_wake = None
        self._kick()

    def _start(self, job: Job) -> None:
        began = self._executor.now()
        self._waited(job, began)
        self._running[job.id] = job
        self._arm(job.id)
        self._stage.submit(job, lambda out: self._executor.post(lambda: self._emitted(job, out, began)))

    def _emitted(self, job: Job, out: Payload | StageError, began: MonoNs) -> None:
        last = _is_last(out)
        if job.id in self._running:
            self._disarm(job.id)
            if last:
                self._finish(job.id)
                self._computed(began)
            elif job.id not in self._paused:
                self._arm(job.id)
        if self.result_gate.admits(job.address):
            self._deliver(job, out)
        if last:
            self._kick()

    def _finish(self, job: JobId) -> None:
        self._disarm(job)
        self._running.pop(job, None)
        self._paused.discard(job)

    def _abort(self, which: Callable[[Job], bool]) -> None:
        for job in [job for job in self._running.values() if which(job)]:
            self._finish(job.id)
            self._stage.abort(job.id)
        self._kick()

    def _arm(self, job: JobId) -> None:
        self._disarm(job)
        when = MonoNs(self._executor.now() + self._timeout_ns)
        self._watchdogs[job] = self._executor.call_at(when, lambda: self._job_hung(job))

    def _disarm(self, job: JobId) -> None:
        cancel = self._watchdogs.pop(job, None)
        if cancel is not None:
            cancel()

    def _job_hung(self, job_id: JobId) -> None:
        job = self._running.get(job_id)
        if job is None:
            return
        self._finish(job_id)
        self._stage.abort(job_id)
        if self.result_gate.admits(job.address):
            self._deliver(job, StageError(kind="timeout", reason=f"{self.spec.name} made no progress"))
        self._kick()


def _is_last(out: Payload | StageError) -> bool:
    """Return whether an engine's output ends its job: only text and audio come in pieces."""
    match out:
        case TextDelta(finish=finish):
            return finish is not None
        case Audio(last=last):
            return last
        case _:
            return True


Runner = BatchRunner | EngineRunner


class StageRunners:
    """The runners of a process's graph, and the lanes they check against. Sessions speak to stages through this only."""

    def __init__(
        self, graph: StageGraph, executor: Executor, ranker: Ranker, observe: Observe, settings: StageSettings
    ) -> None:
        self.graph = graph
        self.lanes = Lanes()
        self._sessions: dict[str, Deliver] = {}
        context = RunnerContext(
            lanes=self.lanes,
            executor=executor,
            deliver=self._deliver,
            observe=observe,
            ranker=ranker,
            queue_ms_max=settings.queue_ms_max,
            step_timeout_s=settings.step_timeout_s,
        )
        self.runners: dict[Role, Runner] = {
            role: EngineRunner(stage, context) if is_engine(stage) else BatchRunner(stage, context)
            for role, stage in graph.nodes.items()
        }

    def open(self, session: str, deliver: Deliver) -> None:
        """Let a session submit; its outputs go to `deliver`."""
        self.lanes.open(session)
        self._sessions[session] = deliver

    def submit(self, job: Job) -> None:
        """Give a job to its stage."""
        self.runners[job.stage].submit(job)

    def cut(self, session: str, lane: int, epoch: int) -> None:
        """Make everything of the lane that is older than `epoch` stale, at every stage at once."""
        self.lanes.cut(session, lane, epoch)
        for runner in self.runners.values():
            runner.cut(session, lane, epoch)

    def drop(self, role: Role, job: JobId) -> None:
        """Take one job back."""
        self.runners[role].drop(job)

    def pause(self, role: Role, job: JobId) -> None:
        runner = self.runners[role]
        if isinstance(runner, EngineRunner):
            runner.pause(job)

    def resume(self, role: Role, job: JobId) -> None:
        runner = self.runners[role]
        if isinstance(runner, EngineRunner):
            runner.resume(job)

    def release(self, session: str) -> None:
        """Give back all that any stage keeps of a session."""
        self.lanes.release(session)
        self._sessions.pop(session, None)
        for runner in self.runners.values():
            runner.release(session)

    @property
    def idle(self) -> bool:
        """Nothing queued, nothing running."""
        return all(runner.idle for runner in self.runners.values())

    def _deliver(self, job: Job, out: Payload | StageError) -> None:
        deliver = self._sessions.get(job.address.session)
        if deliver is not None:
            deliver(job, out)
