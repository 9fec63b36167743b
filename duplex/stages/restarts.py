"""When a stage that went down is started again. Pure: `now` is an argument.

               failed                 begin                  started
    RUNNING ───────────► DOWN(until) ───────► STARTING ─────────────► RUNNING
                             ▲                    │ failed
                             └────────────────────┘

The wait doubles with every failure that lies in the window, up to a bound. More failures than `restarts_max` in the window, and
the stage is given up: it is still tried, but only every `restart_slow_s`.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Literal

from duplex.config import StageSettings
from duplex.units import MonoNs, ns_from_seconds

Reason = Literal["hang", "crash", "memory", "exit", "start"]
"""Why a stage went down: no progress, its code raised, it ran out of memory, its process ended, or it could not start."""


class State(Enum):
    """Where a stage is between two failures."""

    RUNNING = "running"
    DOWN = "down"
    STARTING = "starting"


_NEXT: dict[tuple[State, str], State] = {
    (State.RUNNING, "failed"): State.DOWN,
    (State.DOWN, "begin"): State.STARTING,
    (State.STARTING, "failed"): State.DOWN,
    (State.STARTING, "started"): State.RUNNING,
}
"""Every step that there is; another one is a mistake of the caller."""


class RestartPolicy:
    """One stage's restarts."""

    def __init__(self, settings: StageSettings) -> None:
        self._settings = settings
        self._failures: deque[MonoNs] = deque(maxlen=settings.restarts_max + 1)
        self._state = State.RUNNING
        self._reason: Reason | None = None
        self._until = MonoNs(0)

    @property
    def state(self) -> State:
        """Where the stage is."""
        return self._state

    @property
    def reason(self) -> Reason | None:
        """Why it went down; None while it runs."""
        return self._reason

    @property
    def given_up(self) -> bool:
        """It is down, and failed so often of late that it is tried but now and then."""
        return self._reason is not None and len(self._failures) > self._settings.restarts_max

    def failed(self, reason: Reason, now: MonoNs) -> None:
        """The stage went down, or could not start."""
        self._step("failed")
        settings = self._settings
        oldest = now - ns_from_seconds(settings.restart_window_s)
        while self._failures and self._failures[0] < oldest:
            self._failures.popleft()
        self._failures.append(now)
        self._reason = reason
        doubled_s = settings.restart_s_first * 2.0 ** (len(self._failures) - 1)
        wait_s = settings.restart_slow_s if self.given_up else min(settings.restart_s_max, doubled_s)
        self._until = MonoNs(now + ns_from_seconds(wait_s))

    def begin(self, now: MonoNs) -> None:
        """The stage is being started; not before its deadline."""
        assert now >= self._until, "the wait is not over"
        self._step("begin")

    def started(self) -> None:
        """The stage is loaded and warm."""
        self._step("started")
        self._reason = None

    def next_deadline(self) -> MonoNs | None:
        """Return when to begin; None while the stage runs or starts."""
        return self._until if self._state is State.DOWN else None

    def _step(self, event: str) -> None:
        after = _NEXT.get((self._state, event))
        assert after is not None, f"a stage that is {self._state.value} cannot have {event}"
        self._state = after
