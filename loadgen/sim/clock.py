"""Virtual time: a heap of calls is the clock, and devices compute one step after another. The runners' `Executor`.

Order within one instant is the order of scheduling, so that a run is the same every time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from duplex.units import MonoNs, ns_from_seconds
from loadgen.sim.profile import Cost

Call = Callable[[], None]
_PLAIN = Cost()
_ROUNDING_S = 2e-9
"""Times are whole nanoseconds."""


class Device:
    """What stages compute on: so many steps at once, the rest waits in order of arrival."""

    def __init__(self, clock: Clock, parallel: float) -> None:
        self._clock = clock
        self._free = max(1, int(parallel))
        self._waiting: deque[tuple[float, Call]] = deque()
        self.busy_s = 0.0

    def run(self, seconds: float, done: Call, cost: Cost = _PLAIN) -> None:
        """Compute for a while as soon as there is room, then call `done`; each step takes one place, whatever its cost says."""
        self._waiting.append((seconds, done))
        self._next()

    def _next(self) -> None:
        while self._free and self._waiting:
            seconds, done = self._waiting.popleft()
            self._free -= 1
            self.busy_s += seconds
            self._clock.after(seconds, lambda done=done: self._finished(done))  # type: ignore[misc]

    def _finished(self, done: Call) -> None:
        self._free += 1
        done()
        self._next()


@dataclass(slots=True, eq=False)
class _Sharing:
    left: float
    """Seconds that it still needs where it has all its cores."""
    cost: Cost
    done: Call


class SharedDevice(Device):
    """A processor under an operating system: nothing waits, all that computes is slowed alike where the cores do not suffice.

    Args:
        parallel: cores, counted by what they get done when all are busy: two threads of one core are hardly more than one.
    """

    def __init__(self, clock: Clock, parallel: float) -> None:
        super().__init__(clock, parallel)
        self._cores = parallel
        self._steps: list[_Sharing] = []
        self._since = clock.now()
        """Until when the steps' progress is settled."""
        self._cancel: Call = lambda: None

    def run(self, seconds: float, done: Call, cost: Cost = _PLAIN) -> None:
        """Compute for as long as so many seconds of the cost's cores take, then call `done`."""
        self._settle()
        self._steps.append(_Sharing(seconds, cost, done))
        self._arm()

    def _speeds(self) -> list[float]:
        """Return how fast each step goes, 1 is as if alone."""
        share = self._cores / sum(step.cost.cores for step in self._steps)
        return [1.0 if share >= 1 else share / step.cost.held_up for step in self._steps]

    def _settle(self) -> None:
        now = self._clock.now()
        if self._steps and now > self._since:
            passed = (now - self._since) / 1e9
            self.busy_s += passed * min(self._cores, sum(step.cost.cores for step in self._steps))
            for step, speed in zip(self._steps, self._speeds(), strict=True):
                step.left -= passed * speed
        self._since = now

    def _arm(self) -> None:
        self._cancel()
        self._cancel = lambda: None
        if self._steps:
            soonest = min(step.left / speed for step, speed in zip(self._steps, self._speeds(), strict=True))
            self._cancel = self._clock.after(max(0.0, soonest), self._due)

    def _due(self) -> None:
        self._cancel = lambda: None
        self._settle()
        finished = [step for step in self._steps if step.left <= _ROUNDING_S]
        self._steps = [step for step in self._steps if step.left > _ROUNDING_S]
        self._arm()
        for step in finished:
            step.done()


class Clock:
    """The time of one simulation."""

    def __init__(self) -> None:
        self._now = 0
        self._heap: list[tuple[int, int, Call]] = []
        self._order = 0
        self._cancelled: set[int] = set()
        self.steps: dict[str, Callable[[Call], None]] = {}
        """By stage name: takes the time of the step that was just computed, then calls."""

    def now(self) -> MonoNs:
        """Return the present."""
        return MonoNs(self._now)

    def call_at(self, when: MonoNs, call: Call) -> Call:
        """Run a call at `when`, or at once if that is past; return what cancels it."""
        self._order = number = self._order + 1
        heapq.heappush(self._heap, (when if when > self._now else self._now, number, call))
        return lambda: self._cancelled.add(number)

    def after(self, seconds: float, call: Call) -> Call:
        """Run a call after seconds."""
        return self.call_at(MonoNs(self._now + ns_from_seconds(seconds)), call)

    def post(self, call: Call) -> None:
        """Run a call in this instant, after what is scheduled for it already."""
        self.call_at(MonoNs(self._now), call)

    def abandon(self, stage: str) -> None:
        """There are no threads here: a stage's next step begins when its runner says so."""

    def run(self, stage: str, step: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Compute a stage's step: its result is known at once and given when its time has passed (an engine only starts so)."""
        try:
            result: Any = step()
        except Exception as error:  # noqa: BLE001  the executor's contract: an exception is a result
            result = error
        self.steps.get(stage, self.post)(lambda: done(result))

    def advance(self, until: MonoNs, stop: Callable[[], bool] = lambda: False) -> None:
        """Let time pass until `until`, until nothing is left to happen, or until `stop` says so."""
        heap, cancelled = self._heap, self._cancelled
        while heap and heap[0][0] <= until and not stop():
            when, number, call = heapq.heappop(heap)
            if number in cancelled:
                cancelled.discard(number)
                continue
            self._now = when
            call()
