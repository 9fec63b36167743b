"""One run from its start to its result: begins sessions, collects rows, climbs the ramp.

Cancelling is not needed: setting `stop` ends a run early, and what was measured by then is its result.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from duplex.units import MonoNs, seconds_from_ns
from loadgen import generate
from loadgen.live import load, server
from loadgen.live.clock import now_ns
from loadgen.live.crew import Crew, crew
from loadgen.live.options import LiveOptions, Ramp
from loadgen.live.rows import Pulse, Row, SessionRow, TurnRow
from loadgen.trace import Trace

_STEPS_MAX = 3
"""Lengths of a step that it may last for want of turns."""
_STAGGER = 0.6
"""Of a step's settling time, over which its new talkers begin."""


@dataclass(slots=True)
class Record:
    """Everything that was told so far."""

    turns: list[TurnRow] = field(default_factory=list)
    sessions: list[SessionRow] = field(default_factory=list)
    pulses: list[Pulse] = field(default_factory=list)
    begun: int = 0
    climb: load.Climb | None = None
    info: dict[str, Any] = field(default_factory=dict)
    measures: dict[str, Any] = field(default_factory=dict)
    stopped: bool = False
    """The run was ended from outside."""
    took_s: float = 0.0


class Run:
    """One run.

    Args:
        options: checked.
        trace: what is said.
        watch: told after each row; for a progress bar.
    """

    def __init__(
        self, options: LiveOptions, trace: Trace, watch: Callable[[Record], None] = lambda record: None
    ) -> None:
        self.record = Record()
        self.stop = asyncio.Event()
        self._options = options
        self._trace = trace
        self._watch = watch
        self._next = load.assignments(trace, options)
        self._epoch = MonoNs(0)
        self._changed = asyncio.Event()
        self._crew: Crew = crew(options, self._tell)
        self._talkers = 0
        """Of the closed loop."""
        self._retries: set[asyncio.TimerHandle] = set()

    async def measure(self) -> Record:
        """Run to the end, or until `stop` is set, and return what was noted.

        Raises:
            CallFailed: the server cannot be reached.
            OptionError: a recording cannot be used.
            CrewError: a process of talkers does not start.
        """
        url, key = self._options.url.rstrip("/"), self._options.key
        self.record.info = await server.info(url, key)
        try:
            await self._crew.start()
            before = await server.measures(url, key)
            self._epoch = now_ns()
            self._crew.zero(self._epoch)
            await self._until_over()
            self.record.took_s = self._now_s()
            self.record.measures = server.growth(before, await server.measures(url, key))
        finally:
            self._talkers = 0
            for handle in self._retries:
                handle.cancel()
            await self._crew.stop()
        return self.record

    async def _until_over(self) -> None:
        """Load the server as the options say, until that is over or `stop` is set."""
        options = self._options
        loading = self._climb(options.ramp) if options.ramp is not None else self._steady()
        tasks = {asyncio.ensure_future(loading), asyncio.ensure_future(self.stop.wait())}
        try:
            done, _ = await asyncio.wait(tasks, timeout=options.duration_s, return_when=asyncio.FIRST_COMPLETED)
            self.record.stopped = self.stop.is_set()
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _steady(self) -> None:
        """One load, until all its sessions are over. Cancel: begins no more."""
        if self._options.concurrency is not None:
            await self._talk(self._options.concurrency, over_s=min(0.05 * self._options.concurrency, 5.0))
        else:
            await self._arrive(load.arrivals(self._trace, self._options), self._options.sessions)
        while self.record.begun > len(self.record.sessions) or self._more():
            self._changed.clear()
            await self._changed.wait()

    def _more(self) -> bool:
        """Whether a closed loop has sessions left to begin."""
        return self._talkers > 0 and (self._options.sessions is None or self.record.begun < self._options.sessions)

    # Load. ----------------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.record.begun += 1
        self._crew.begin(next(self._next))

    async def _talk(self, talkers: int, over_s: float) -> None:
        """Have so many talkers in the closed loop, the new ones spread over a time. Cancel: leaves those that are there."""
        new = talkers - self._talkers
        for _ in range(new):
            if self._options.sessions is not None and self.record.begun >= self._options.sessions:
                return
            self._talkers += 1
            self._begin()
            await asyncio.sleep(over_s / new)

    def _follow(self, row: SessionRow) -> None:
        """A session of the closed loop has ended: begin the next."""
        if not self._more() or self.stop.is_set():
            return
        wait = load.retry_s(row)
        if not wait:
            self._begin()
            return

        def again() -> None:
            self._retries.discard(handle)
            if self._more():
                self._begin()

        handle = asyncio.get_running_loop().call_later(wait, again)
        self._retries.add(handle)

    async def _arrive(self, times: Iterator[float], most: int | None) -> None:
        """Begin sessions at their times from now on, whatever becomes of them. Cancel: begins no more."""
        start = self._now_s()
        for number, at_s in enumerate(times):
            if number == most:
                return
            await asyncio.sleep(start + at_s - self._now_s())
            self._begin()

    # The ramp. ------------------------------------------------------------------------------------------------------------

    async def _climb(self, ramp: Ramp) -> None:
        """Raise the load step by step. Cancel: the step under way is not counted."""
        options = self._options
        by_rate = options.rate is not None
        first = options.rate if options.rate is not None else float(options.concurrency or ramp.by)
        climb = self.record.climb = load.Climb(ramp=ramp, load=first, unit="sessions_per_s" if by_rate else "talkers")
        while not climb.over:
            arriving = asyncio.ensure_future(self._load(climb))
            await asyncio.sleep(ramp.settle_s)
            from_s, already = self._now_s(), len(self.record.turns)
            await asyncio.sleep(ramp.step_s)
            await self._until_turns(already + ramp.turns_min, (_STEPS_MAX - 1) * ramp.step_s)
            arriving.cancel()
            await asyncio.gather(arriving, return_exceptions=True)
            judged = load.verdict(self.record.turns[already:], options.slo)
            climb.take(load.Step(load=climb.load, from_s=from_s, to_s=self._now_s(), verdict=judged))
            self._watch(self.record)

    async def _until_turns(self, count: int, within_s: float) -> None:
        """Wait until so many turns are over, or for so long. Cancel: at any time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while len(self.record.turns) < count:
                    self._changed.clear()
                    await self._changed.wait()

    async def _load(self, climb: load.Climb) -> None:
        """Bring the load to that of the next step. Cancel: begins no more."""
        if climb.unit == "talkers":
            await self._talk(round(climb.load), over_s=_STAGGER * climb.ramp.settle_s)
        else:
            rng = random.Random(f"{self._options.seed}:{len(climb.steps)}")
            await self._arrive(generate.arrivals(climb.load, self._trace.header.arrivals_cv, rng), None)

    # What is told. --------------------------------------------------------------------------------------------------------

    def _tell(self, row: Row) -> None:
        match row:
            case TurnRow():
                self.record.turns.append(row)
                self._changed.set()
            case SessionRow():
                self.record.sessions.append(row)
                self._follow(row)
                self._changed.set()
            case Pulse():
                self.record.pulses.append(row)
        self._watch(self.record)

    def _now_s(self) -> float:
        return seconds_from_ns(MonoNs(now_ns() - self._epoch))
