"""The runners of a process's graph. Sessions speak to stages through `StageRunners` only."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from duplex.config import StageSettings
from duplex.pacing.policy import Policy
from duplex.payloads import Job, JobId, Pace, Payload, Role, StageError
from duplex.stages.batch_runner import BatchRunner
from duplex.stages.contract import is_engine
from duplex.stages.engine_runner import EngineRunner
from duplex.stages.executor import Executor, Observe
from duplex.stages.graph import StageGraph
from duplex.stages.lanes import Lanes
from duplex.stages.runner import Deliver, RunnerContext, StageLoad, StageRunner, StageSpan

_PATH = (Role.TRANSCRIBE, Role.THINK, Role.TALK, Role.VOCODE)
"""The way of a turn through the stages."""


def _unwatched(span: StageSpan) -> None:
    """Nobody keeps spans."""


class StageRunners:
    """The runners of a process's graph, and the lanes they check against.

    Args:
        policy: who is served first.
        weights: shares of tenants.
        on_span: told of every job when it has left its stage.
    """

    def __init__(
        self, graph: StageGraph, executor: Executor, policy: Policy, observe: Observe, settings: StageSettings,
        weights: Mapping[str, float] | None = None, on_span: Callable[[StageSpan], None] = _unwatched,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.policy = policy
        self.lanes = Lanes()
        self._sessions: dict[str, Deliver] = {}
        context = RunnerContext(
            lanes=self.lanes,
            executor=executor,
            deliver=self._deliver,
            observe=observe,
            policy=policy,
            weights=weights or {},
            settings=settings,
            on_span=on_span,
        )
        makers = graph.pack.makers
        self.runners: dict[Role, StageRunner] = {
            role: (
                EngineRunner(stage, context, makers.get(role))
                if is_engine(stage)
                else BatchRunner(stage, context, makers.get(role))
            )
            for role, stage in graph.nodes.items()
        }
        path = [self.runners[role] for role in _PATH if role in self.runners]
        for number, runner in enumerate(path):
            runner.later = tuple(path[number + 1 :])

    def open(self, session: str, deliver: Deliver) -> None:
        """Let a session submit; its outputs go to `deliver`."""
        self.lanes.open(session)
        self._sessions[session] = deliver

    def submit(self, job: Job) -> None:
        """Give a job to its stage."""
        if job.stage is Role.THINK and job.address.reply is not None:
            self.policy.reply_begins()
        self.runners[job.stage].submit(job)

    def cut(self, session: str, lane: int, epoch: int) -> None:
        """Make everything of the lane that is older than `epoch` stale, at every stage at once."""
        self.lanes.cut(session, lane, epoch)
        self.policy.reply_cut()
        for runner in self.runners.values():
            runner.cut(session, lane, epoch)

    def drop(self, role: Role, job: JobId) -> None:
        """Take one job back."""
        self.runners[role].drop(job)

    def repace(self, role: Role, job: JobId, pace: Pace) -> None:
        """Renew a job's pace."""
        self.runners[role].repace(job, pace)

    def release(self, session: str) -> None:
        """Give back all that any stage keeps of a session."""
        self.lanes.release(session)
        self._sessions.pop(session, None)
        for runner in self.runners.values():
            runner.release(session)

    def loads(self) -> list[StageLoad]:
        """Return how busy each stage is."""
        return [runner.load() for runner in self.runners.values()]

    def troubles(self) -> list[str]:
        """Say of each stage that is down what is wrong with it."""
        return [trouble for runner in self.runners.values() if (trouble := runner.trouble) is not None]

    def close(self) -> None:
        """Give all stages back."""
        for runner in self.runners.values():
            runner.close()

    @property
    def idle(self) -> bool:
        """Nothing queued, nothing running."""
        return all(runner.idle for runner in self.runners.values())

    def _deliver(self, job: Job, out: Payload | StageError) -> None:
        deliver = self._sessions.get(job.address.session)
        if deliver is not None:
            deliver(job, out)
