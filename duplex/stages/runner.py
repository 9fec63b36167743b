"""What both kinds of runner have in common: a queue behind a gate, a wake-up, and the account of what was done.

A runner knows its stage, its queue and the lanes' epochs; an `Executor` knows threads and clocks, so that the very same
runners serve on threads and on simulated time. Two checks of the epoch stand here, one on each side of the compute:

    submit ──[gate: queue]──► StageQueue ──plan──► step or engine ──[gate: result]──► deliver(job, payload)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from duplex.config import StageSettings
from duplex.pacing.fairness import Shares
from duplex.pacing.policy import Policy, Work
from duplex.payloads import SCHEMA_VERSION, Address, Job, JobId, Pace, Payload, Role, StageError
from duplex.stages.contract import NodeSpec, Stage, StageMaker, StageRaisedError
from duplex.stages.executor import Executor, Observe
from duplex.stages.lanes import Gate, Lanes
from duplex.stages.queue import StageQueue
from duplex.stages.restarts import Reason
from duplex.stages.watchdog import Owner, Watchdog
from duplex.units import MonoNs, ns_from_seconds, seconds_from_ns

Deliver = Callable[[Job, Payload | StageError], None]
"""Hands an output to the session that submitted the job."""
Outcome = Literal["done", "failed", "stale", "dropped"]
"""How a job left its stage: with its result, with an error, with a result of an older epoch, or taken back."""
_STEP_SMOOTHING = 0.2
"""Weight of the newest step in the measured time of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpan:
    """One job's way through one stage, told once, when it ends in any way."""

    stage: str
    role: Role
    job: JobId
    address: Address
    queued_at: MonoNs
    began_at: MonoNs | None
    """When its compute began; None: it never did."""
    ended_at: MonoNs
    outcome: Outcome
    batch: int
    """Jobs in its step, or running at once in the engine when it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLoad:
    """How busy a stage is; the counts grow over the process's life."""

    name: str
    role: Role
    device: str
    slots: int
    """Jobs in one step, or running at once."""
    bytes_per_session: int
    queued: int
    queued_ms: int
    running: int
    busy_s: float
    """Time in which it computed anything."""
    slot_busy_s: float
    """The same, summed over the jobs in it."""
    steps: int
    jobs_done: int
    step_s: float
    """Measured time of one step (engines: from one output of a job to its next)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerContext:
    """What all runners of a process share."""

    lanes: Lanes
    executor: Executor
    deliver: Deliver
    observe: Observe
    policy: Policy
    weights: Mapping[str, float]
    """Of tenants."""
    settings: StageSettings
    on_span: Callable[[StageSpan], None]


class Busy:
    """Adds up how long a stage computes, and how many jobs at once."""

    def __init__(self) -> None:
        self._since = MonoNs(0)
        self.running = 0
        self._busy = 0
        self._slots = 0

    def set(self, running: int, now: MonoNs) -> None:
        """From now on so many jobs compute."""
        if self.running:
            self._busy += now - self._since
            self._slots += self.running * (now - self._since)
        self._since = now
        self.running = running

    def totals(self, now: MonoNs) -> tuple[float, float]:
        """Return seconds in which anything computed, and job-seconds."""
        self.set(self.running, now)
        return seconds_from_ns(MonoNs(self._busy)), seconds_from_ns(MonoNs(self._slots))


class StageRunner(ABC):
    """A stage's queue behind its gate; the two kinds of runner differ in how they plan and compute."""

    def __init__(self, stage: Stage, context: RunnerContext, maker: StageMaker | None = None) -> None:
        spec = stage.spec
        self.spec: NodeSpec = spec
        self.queue_gate = Gate(f"{spec.name}.queue", context.lanes)
        self.result_gate = Gate(f"{spec.name}.result", context.lanes)
        self.later: tuple[StageRunner, ...] = ()
        """The stages that its output still has to pass."""
        self.step_s = spec.step_s
        """Measured time of one step."""
        self._queue = StageQueue(spec, context.settings.queue_ms_max)
        self._shares = Shares(context.weights)
        self._policy = context.policy
        self._executor = context.executor
        self._deliver = context.deliver
        self._observe = context.observe
        self._on_span = context.on_span
        self._timeout_ns = ns_from_seconds(context.settings.step_timeout_s)
        self._raises_max = context.settings.raises_max
        self._raised = 0
        """Steps in a row that raised."""
        owner = Owner(lose=self._went_down, refuse=self._refuse_waiting, resume=self.kick)
        self._watchdog = Watchdog(stage, maker, context.settings, context.executor, context.observe, owner)
        self._busy = Busy()
        self._steps = 0
        self._jobs_done = 0
        self._cancel_wake: Callable[[], None] | None = None

    def submit(self, job: Job) -> None:
        """Queue a job; a refusal comes back as its output, stale work vanishes."""
        now = self._executor.now()
        refusal: StageError | None = None
        if job.schema != SCHEMA_VERSION:
            refusal = StageError(kind="refused", reason=f"schema version {job.schema}, expected {SCHEMA_VERSION}")
        elif not self.queue_gate.admits(job.address):
            return
        elif self._watchdog.refuses:
            refusal = StageError(kind="unavailable", reason=f"{self.spec.name} is down")
        elif job.pace.idle_only and not (self._watchdog.up and self._is_free):
            refusal = StageError(kind="busy", reason=f"{self.spec.name} serves others")
        else:
            refusal = self._queue.put(job, now)
        if refusal is not None:
            self._executor.post(lambda: self._deliver(job, refusal))
            return
        self.kick()

    @property
    def trouble(self) -> str | None:
        """Say what is wrong with the stage; None: it serves. What is submitted meanwhile waits for it, as long as a step may take."""
        return self._watchdog.trouble

    def close(self) -> None:
        """Give the stage back."""
        self._watchdog.close()

    def load(self) -> StageLoad:
        """Return how busy the stage is."""
        queued = self._queue.stats()
        busy_s, slot_busy_s = self._busy.totals(self._executor.now())
        return StageLoad(
            name=self.spec.name, role=self.spec.role, device=self.spec.device, slots=self.spec.batch_max,
            bytes_per_session=self.spec.bytes_per_session, queued=queued.jobs, queued_ms=queued.media_ms,
            running=self._busy.running, busy_s=busy_s, slot_busy_s=slot_busy_s, steps=self._steps,
            jobs_done=self._jobs_done, step_s=self.step_s,
        )  # fmt: skip

    @abstractmethod
    def _lose(self) -> list[tuple[Work, MonoNs, int]]:
        """Forget what was under way: each work, when it began, and with how many others."""

    @abstractmethod
    def kick(self) -> None:
        """Plan again: something has changed."""

    @abstractmethod
    def cut(self, session: str, lane: int, epoch: int) -> None:
        """Drop what is of older epochs."""

    @abstractmethod
    def drop(self, job: JobId) -> None:
        """Take one job back."""

    @abstractmethod
    def repace(self, job: JobId, pace: Pace) -> None:
        """Renew a job's pace, if it is still here."""

    @abstractmethod
    def release(self, session: str) -> None:
        """Forget a session, here and in the stage."""

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Nothing queued, nothing running."""

    @property
    @abstractmethod
    def _is_free(self) -> bool:
        """Work for idle time would begin at once, and keep nobody waiting."""

    @property
    def _unit_ns(self) -> int:
        """Time until one unit of this stage reaches the listener, by the measured steps from here on."""
        own = self.step_s * self.spec.steps_to_next
        return ns_from_seconds(own + sum(runner.step_s for runner in self.later))

    def _wake(self, when: MonoNs | None) -> None:
        """Plan again at `when`; one wake-up at a time."""
        if self._cancel_wake is not None:
            self._cancel_wake()
            self._cancel_wake = None
        if when is not None:
            self._cancel_wake = self._executor.call_at(when, self._woken)

    def _woken(self) -> None:
        self._cancel_wake = None
        self.kick()

    def _began(self, work: Work, now: MonoNs) -> None:
        waited = seconds_from_ns(MonoNs(now - work.arrived))
        self._observe("duplex_stage_queue_seconds", waited, {"stage": self.spec.name})

    def _computed(self, began: MonoNs) -> None:
        seconds = seconds_from_ns(MonoNs(self._executor.now() - began))
        self._observe("duplex_stage_compute_seconds", seconds, {"stage": self.spec.name})

    def _stepped(self, seconds: float) -> None:
        self._steps += 1
        self.step_s += _STEP_SMOOTHING * (seconds - self.step_s)

    def _failed_step(self, error: BaseException) -> None:
        """The stage raised: that may be the fault of its input, but not again and again."""
        self._raised += 1
        if isinstance(error, MemoryError):
            self._watchdog.failed("memory")
        elif self._raised >= self._raises_max or not isinstance(error, Exception):
            self._watchdog.failed("crash", name_of(error))

    def _went_down(self, reason: Reason) -> None:
        """The stage is gone, and what it had begun fails. What waits is nobody's loss: it is the next stage's."""
        self._raised = 0
        kind = "timeout" if reason == "hang" else "failed"
        words = self._watchdog.words(reason)
        lost = self._lose()
        self._busy.set(0, self._executor.now())
        for work, began, batch in lost:
            self._fail(work, began, batch, StageError(kind=kind, reason=words))

    def _refuse_waiting(self) -> None:
        error = StageError(kind="unavailable", reason=f"{self.spec.name} is down")
        for work in self._queue.drain():
            self._fail(work, None, 0, error)

    def _fail(self, work: Work, began: MonoNs | None, batch: int, error: StageError) -> None:
        self._ended(work, began, "failed", batch)
        if self.result_gate.admits(work.job.address):
            self._deliver(work.job, error)

    def _ended(self, work: Work, began_at: MonoNs | None, outcome: Outcome, batch: int = 0) -> None:
        """A job has left the stage."""
        if outcome == "done":
            self._jobs_done += 1
        job = work.job
        self._on_span(
            StageSpan(
                stage=self.spec.name, role=self.spec.role, job=job.id, address=job.address, queued_at=work.arrived,
                began_at=began_at, ended_at=self._executor.now(), outcome=outcome, batch=batch,
            )
        )  # fmt: skip

    def _forget(self, works: Iterable[Work]) -> None:
        for work in works:
            self._ended(work, None, "dropped")


def name_of(error: BaseException) -> str:
    """Return what may be told of a stage's exception: its text could hold what somebody said."""
    return str(error) if isinstance(error, StageRaisedError) else type(error).__name__
