"""The door: measures what admission decides by, asks it, and says no.

Looks at the stages and at its own loop once a second, hears of each turn how it went, and lowers the rate at which cameras
are sampled. All arithmetic is in `duplex.pacing.admission`. Runs on the loop's thread.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Sequence

import structlog

from duplex.config import Settings
from duplex.media.video import VideoRate
from duplex.pacing.admission import Admission, Capacity, Decision, Limit, admit
from duplex.pacing.demand import Load, LoopLoad
from duplex.payloads import Role
from duplex.protocol import ServerBusy
from duplex.stages.contract import ModelPack, is_engine
from duplex.stages.executor import Executor, Observe
from duplex.stages.runner import StageLoad

_log = structlog.get_logger("duplex.admission")


def capacity(pack: ModelPack, settings: Settings) -> Capacity:
    """Return what a pack has to serve with on this machine.

    An engine that keeps a context per session, and has just as many slots as its pack wants sessions, keeps the contexts in
    the slots: one session more would push another's out, however idle the engine is. Then the pack's number is a bound.
    """
    bound = settings.server.sessions_max
    engines = [stage.spec for stage in pack.stages if is_engine(stage)]
    if any(spec.bytes_per_session and spec.batch_max == pack.sessions_max for spec in engines):
        bound = bound or pack.sessions_max
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = settings.threads or cores
    return Capacity(
        sessions_prior=settings.admission.sessions_prior or pack.sessions_prior or pack.sessions_max,
        sessions_max=bound,
        engines=frozenset(spec.name for spec in engines),
        parallelism={"cpu": float(min(cores, threads + 1))},  # the loop is a thread beside the model's
    )


class Door:
    """Admits sessions, or does not.

    Args:
        pack: what sessions talk to.
        settings: the whole configuration.
        executor: the clock.
        observe: takes measures.
        loads: how busy the stages are.
        live: sessions at this moment.
        video: the rate at which cameras are sampled.
    """

    def __init__(
        self, pack: ModelPack, settings: Settings, executor: Executor, observe: Observe,
        loads: Callable[[], Sequence[StageLoad]], live: Callable[[], int], video: VideoRate,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._executor = executor
        self._observe = observe
        self._loads = loads
        self._live = live
        self._video = video
        self._admission = Admission(settings.admission, capacity(pack, settings))
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def open(self) -> None:
        """Begin to measure."""
        self._due = self._loop.time()
        self._look()

    def close(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._video.share = 1.0

    def admit(self, not_ready: Sequence[str]) -> None:
        """Take one session in.

        Args:
            not_ready: why no session can be served at all; empty if it can.
        Raises:
            ServerBusy: it is refused.
        """
        unready = self._unready(not_ready)
        self._tell(self._admission.decide(self._live(), self._executor.now()) if unready is None else unready)

    def check(self, not_ready: Sequence[str]) -> None:
        """Refuse where `admit` would at this moment; what is not refused is not counted.

        Raises:
            ServerBusy: it would be refused.
        """
        refusal = self._unready(not_ready) or self._admission.full(self._live(), self._executor.now())
        if refusal is not None:
            self._tell(refusal)

    def limits(self) -> list[Limit]:
        """Return what bounds the number of sessions, the nearest first."""
        return self._admission.limits(self._live())

    def sessions_max(self) -> int:
        """Return how many sessions would be admitted as things stand."""
        return self._admission.sessions_max()

    def watched(self) -> Observe:
        """Return where one session's measures go: on to where all go, and the outcome of its turns to the admission."""
        return _TurnMeasures(self._observe, self._turn, self._settings)

    def _unready(self, reasons: Sequence[str]) -> Decision | None:
        if not reasons:
            return None
        retry_s = self._settings.server.starting_retry_s
        if "draining" in reasons:
            return Decision(admitted=False, reason="draining", retry_after_s=retry_s)
        return admit(live=0, sessions_max=None, ready=False, retry_after_s=retry_s)

    def _turn(self, ttfas_s: float, underrun_s: float) -> None:
        self._admission.turn(ttfas_s, underrun_s, self._executor.now())

    def _tell(self, decision: Decision) -> None:
        labels = {"decision": "admitted" if decision.admitted else "refused", "reason": decision.reason}
        self._observe("duplex_admission_total", 1, labels)
        if not decision.admitted:
            _log.info(
                "session_refused", reason=decision.reason, limit=decision.limit, live=self._live(),
                retry_after_s=decision.retry_after_s,
            )  # fmt: skip
            raise ServerBusy(decision.retry_after_s)

    def _look(self) -> None:
        self._due = max(self._due + self._settings.admission.sample_s, self._loop.time())
        self._timer = self._loop.call_at(self._due, self._look)
        # Reading the camera is spare work: it keeps nobody out.
        stages = [load for load in self._loads() if load.role is not Role.READ]
        loads: list[Load] = [*stages, LoopLoad(busy_s=time.thread_time())]
        self._admission.observe(loads, self._live(), self._executor.now())
        share = self._admission.video_share
        if share != self._video.share:
            _log.info("video_rate", share=share, before=self._video.share)
            self._video.share = share


class _TurnMeasures:
    """One session's measures on their way.

    What the turn policy waited beyond its first look is taken off a turn's time: it is the speaker's pause, not our load.
    """

    def __init__(self, observe: Observe, turn: Callable[[float, float], None], settings: Settings) -> None:
        self._observe = observe
        self._turn = turn
        self._first_look_s = settings.turn.first_look_ms / 1000
        self._underrun_max_s = settings.admission.slo_underrun_ms / 1000
        self._endpointing_s = 0.0
        self._broken = False
        """The turn had a gap that counts, and was told of as a miss."""

    def __call__(self, name: str, value: float, labels: dict[str, str]) -> None:
        self._observe(name, value, labels)
        if name == "duplex_endpointing_seconds":
            self._endpointing_s = value
        elif name == "duplex_ttfas_seconds" and labels["observed"] == "sent":
            self._broken = False
            self._turn(value - max(0.0, self._endpointing_s - self._first_look_s), 0.0)
        elif name == "duplex_underrun_seconds_total" and labels["observed"] == "sent":
            if value > self._underrun_max_s and not self._broken:
                self._broken = True
                self._turn(0.0, value)
        elif name == "duplex_replies_total" and labels["status"] == "failed" and not self._broken:
            self._turn(math.inf, 0.0)
