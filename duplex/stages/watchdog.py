"""Replaces a stage that hung, crashed, ran out of memory or whose process ended. The policy decides when, this acts.

    failed ─► the runner fails what the stage held ─► old stage closed on its own thread ─► wait ─► new one made and loaded
                                                      (a hung thread is left to itself)             on a fresh thread

A Python thread cannot be killed: a hung one is abandoned with its stage, which it closes if it ever returns. A process can be,
and is (`duplex.stages.process`). ADR-0013.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import structlog

from duplex.config import StageSettings
from duplex.stages.contract import Lost, Mortal, Stage, StageMaker
from duplex.stages.executor import Executor, Observe
from duplex.stages.restarts import Reason, RestartPolicy, State
from duplex.units import MonoNs, ns_from_seconds, seconds_from_ns

_WORDS: dict[Reason, str] = {
    "hang": "made no progress", "crash": "crashed", "memory": "ran out of memory", "exit": "lost its process",
    "start": "cannot start",
}  # fmt: skip
_Timer = Literal["patience", "retry", "start"]
_log = structlog.get_logger("duplex.stages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """What the stage's runner does about it."""

    lose: Callable[[Reason], None]
    """The stage is gone: fail what it held."""
    refuse: Callable[[], None]
    """It has been gone for as long as a step may take: fail what waits for it."""
    resume: Callable[[], None]
    """There is a new stage."""


class Watchdog:
    """One stage's place in the graph, and whoever fills it.

    Args:
        stage: the first one, which is loaded by others.
        maker: makes the next; None: the same is loaded again, as soon as its thread is free.
    """

    def __init__(
        self, stage: Stage, maker: StageMaker | None, settings: StageSettings, executor: Executor, observe: Observe,
        owner: Owner,
    ) -> None:  # fmt: skip
        self.stage = stage
        self.life = 0
        """Grows when a stage goes and when one is made: what was begun in another life is not wanted any more."""
        self.refuses = False
        """The stage has been gone for so long that nothing waits for it."""
        self._name = stage.spec.name
        self._maker = maker
        self._settings = settings
        self._executor = executor
        self._observe = observe
        self._owner = owner
        self._policy = RestartPolicy(settings)
        self._coming: Stage | None = None
        """The next stage, while it is loaded."""
        self._abandoned = 0
        """Old stages whose thread has not come back from closing them."""
        self._timers: dict[_Timer, Callable[[], None]] = {}
        """What cancels each."""
        observe("duplex_stage_up", 1, {"stage": self._name})
        self._watch(stage)

    @property
    def up(self) -> bool:
        """The stage takes work."""
        return self._policy.state is State.RUNNING

    @property
    def trouble(self) -> str | None:
        """Say what is wrong, for those who ask whether the server is ready; None: nothing is."""
        reason = self._policy.reason
        if reason is None:
            return None
        outlook = "is given up, and tried now and then" if self._policy.given_up else "is being started again"
        return f"stage {self._name} {_WORDS[reason]}, and {outlook}"

    def words(self, reason: Reason) -> str:
        """Return the reason as a reply's error tells it."""
        return f"{self._name} {_WORDS[reason]}"

    def failed(self, reason: Reason, detail: str = "") -> None:
        """The stage is gone; does nothing if that is known already.

        Args:
            detail: for the log; holds nothing of any session.
        """
        if not self.up:
            return
        self._down(reason, detail)
        patience = MonoNs(self._executor.now() + ns_from_seconds(self._settings.step_timeout_s))
        self._later("patience", patience, self._lose_patience)
        self._owner.lose(reason)
        self._retire(self.stage)

    def close(self) -> None:
        """Give the stage back, and start none any more."""
        self.life += 1
        self._stop("patience", "retry", "start")
        self.stage.close()
        if isinstance(self._coming, Mortal):  # else its thread is at it
            self._coming.close()

    def _down(self, reason: Reason, detail: str) -> None:
        self.life += 1
        now = self._executor.now()
        self._policy.failed(reason, now)
        self._observe("duplex_stage_up", 0, {"stage": self._name})
        until = self._policy.next_deadline()
        assert until is not None, "it is down"
        _log.error(
            "stage_down", stage=self._name, reason=reason, detail=detail, given_up=self._policy.given_up,
            retry_s=round(seconds_from_ns(MonoNs(until - now)), 3),
        )  # fmt: skip
        self._later("retry", until, self._begin)

    def _lose_patience(self) -> None:
        self.refuses = True
        self._owner.refuse()

    def _retire(self, stage: Stage) -> None:
        """Have a stage closed without waiting for it. One in a process is killed at once, which frees its thread."""
        if self._maker is None:
            return
        self._abandoned += 1
        thread = f"{self._name}-end" if isinstance(stage, Mortal) else self._name
        self._executor.run(thread, stage.close, self._retired)
        self._executor.abandon(thread)
        self._executor.abandon(self._name)

    def _retired(self, outcome: Any) -> None:
        self._abandoned -= 1
        if isinstance(outcome, BaseException):
            _log.warning("stage_close_failed", stage=self._name, error=type(outcome).__name__)

    def _begin(self) -> None:
        now = self._executor.now()
        reason = self._policy.reason
        self._policy.begin(now)
        if self._abandoned >= self._settings.abandoned_max:
            self._down("start", f"{self._abandoned} threads hang")
            return
        self._observe("duplex_stage_restarts_total", 1, {"stage": self._name, "reason": str(reason)})
        self.life += 1
        life = self.life
        try:
            stage = self.stage if self._maker is None else self._maker()
        except Exception as error:  # noqa: BLE001  a pack's own code: told in the log and by readyz, and tried again
            self._down("start", str(error))
            return
        self._coming = stage
        if self._maker is not None:  # else it waits for its hung thread, however long
            timeout = MonoNs(now + ns_from_seconds(self._settings.start_timeout_s))
            self._later("start", timeout, lambda: self._loaded(life, stage, TimeoutError("took too long"), now))
        self._executor.run(
            self._name, lambda: stage.load(self._progress), lambda out: self._loaded(life, stage, out, now)
        )

    def _loaded(self, life: int, stage: Stage, outcome: Any, began: MonoNs) -> None:
        if life != self.life:
            return  # it took too long, or the server closes
        self._coming = None
        if isinstance(outcome, BaseException):
            self._down("start", f"{type(outcome).__name__}: {outcome}")
            self._retire(stage)
            return
        self._stop("patience", "retry", "start")
        self.stage = stage
        self._policy.started()
        self._watch(stage)
        self.refuses = False
        self._observe("duplex_stage_up", 1, {"stage": self._name})
        took_s = seconds_from_ns(MonoNs(self._executor.now() - began))
        _log.info("stage_up", stage=self._name, took_s=round(took_s, 3))
        self._owner.resume()

    def _watch(self, stage: Stage) -> None:
        if not isinstance(stage, Mortal):
            return
        life = self.life

        def lost(why: Lost) -> None:
            if life == self.life:
                self.failed(why)

        stage.on_lost(lambda why: self._executor.post(lambda: lost(why)))

    def _progress(self, line: str) -> None:
        _log.debug("stage_loading", stage=self._name, line=line)

    def _later(self, timer: _Timer, when: MonoNs, call: Callable[[], None]) -> None:
        self._stop(timer)
        self._timers[timer] = self._executor.call_at(when, call)

    def _stop(self, *timers: _Timer) -> None:
        for timer in timers:
            cancel = self._timers.pop(timer, None)
            if cancel is not None:
                cancel()
