"""Admission: whether one more session may come in, and what is shed before anyone is refused. Pure; refusal precedes harm.

Everything that can run out is a **limit**: each stage, each device that stages share, the event loop, memory. Of each it is
learned what share of it one session takes, from counts that only grow, over a decaying window:

    busy and slot seconds, steps ──► share per session ──► × (live + 1) ≤ target ? admit : refuse, naming the limit

- What a stage's work costs is measured by `duplex.pacing.demand`: batch stages in full batches, engines in slots.
- Until there is evidence, a pack's own number of sessions is believed: no limit carries more than that.
- Beyond that number the live sessions may grow only by a factor at a time: a quiet session says little of fifty.
- A session counts in full from its first moment, and sessions that have just come teach nothing until they have settled.

The **brake** is for what arithmetic does not see: while more than a tenth of the recent turns were late or broken, nobody
is admitted, and the number of sessions at which that happened is approached again slowly. An idle server always admits.
Source: DESIGN.md §5; ADR-0009.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from duplex.config import AdmissionSettings
from duplex.pacing.demand import LOOP, Load, Meter
from duplex.units import MonoNs, ns_from_seconds, seconds_from_ns

Kind = Literal["stage", "device", "loop", "memory"]
Reason = Literal["ok", "not_ready", "draining", "sessions_max", "slo", "ramp", "stage", "device", "loop", "memory"]
"""Why it was decided so: `slo` is the brake, `ramp` more sessions at once than the evidence reaches; the kinds are limits."""
_RETRY_S = 5
"""What a refused client is told where no session has ended yet."""
_EVIDENCE_SESSIONS = 4
"""Fewer sessions than this fill the window more slowly: what two people do in half a minute is chance."""
_LEARNED_FROM_MIN = 2
"""Sessions from which anything is learned: one person alone may be anyone."""
_SETTLED_SHARE = 0.8
"""Of the live sessions that must have settled for an interval to teach anything."""
_TURNS_KEPT = 200
_TURNS_MIN = 5
_MISSES_MIN = 2
"""One bad turn does not make an overload."""
_BACK_OFF = 0.9
_ENDS_KEPT_S = 120.0
_VIDEO_BACK = 0.1
"""How far below the mark the load has to fall before more video is taken again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What there is to serve with."""

    sessions_prior: int
    """Sessions believed possible until they are measured, ≥ 1."""
    sessions_max: int | None = None
    """Bound that no measurement lifts; None: there is none."""
    engines: frozenset[str] = frozenset()
    """Names of the stages that batch by themselves."""
    parallelism: Mapping[str, float] = field(default_factory=dict)
    """Threads of a device; one that is not named does one thing at a time, and its stages count by their own limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether to admit, and if not, why and when to come back."""

    admitted: bool
    reason: Reason = "ok"
    limit: str = ""
    """Name of the limit that is reached, e.g. the stage's."""
    retry_after_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One thing that bounds how many sessions are taken; shares are of all that it can do."""

    name: str
    kind: Kind
    load: float
    """Share that the live sessions are believed to take; over 1: it is overloaded."""
    per_session: float
    """Share that one session takes."""
    recent: float
    """Share that was taken in the last seconds."""
    limit: float
    """Share up to which sessions are admitted."""

    @property
    def sessions(self) -> int:
        """Sessions that it carries; a very large number where one takes nothing."""
        return math.floor((self.limit + _EPSILON) / max(self.per_session, _EPSILON))


_EPSILON = 1e-9


def admit(live: int, sessions_max: int | None, ready: bool, retry_after_s: int = _RETRY_S) -> Decision:
    """Decide by the bounds that are known without measuring.

    Args:
        live: sessions already there, connecting ones included.
        sessions_max: bound on them, if any.
        ready: all stages are loaded and alive.
        retry_after_s: what a refused client is told.
    """
    if not ready:
        return Decision(admitted=False, reason="not_ready", retry_after_s=retry_after_s)
    if sessions_max is not None and live >= sessions_max:
        return Decision(admitted=False, reason="sessions_max", limit="sessions_max", retry_after_s=retry_after_s)
    return Decision(admitted=True)


class _Measured(NamedTuple):
    """A limit as of the last look."""

    name: str
    kind: Kind
    share: float
    recent: float
    target: float


class Admission:
    """Decides for one process. No clock: `now` comes in, and must not fall.

    Args:
        settings: targets, windows, the SLO.
        capacity: what there is.
    """

    def __init__(self, settings: AdmissionSettings, capacity: Capacity) -> None:
        self._settings = settings
        self._capacity = capacity
        self._meters: dict[str, Meter] = {}
        self._prior = float(capacity.sessions_prior)
        self._prior_weight = settings.window_s * max(_EVIDENCE_SESSIONS, self._prior)
        """Session-seconds that the prior still counts for."""
        self._evidence = self._prior_weight
        """Session-seconds in the window, the prior's included."""
        self._limits: list[_Measured] = []
        self._lives: deque[tuple[MonoNs, int]] = deque()
        self._settled = 0
        self._live = 0
        self._brake = _Brake(settings)
        self._ends = _Ends()
        self._observed_at: MonoNs | None = None
        self._video_step = 0

    # What is measured. ----------------------------------------------------------------------------------------------

    def observe(self, loads: Iterable[Load], live: int, now: MonoNs) -> None:
        """Take the counts of everything; call at a steady interval of about a second.

        Args:
            loads: of all stages and the loop, the same ones each time.
            live: sessions at this moment, connecting ones included.
            now: the present.
        """
        loads = list(loads)
        passed_s = 0.0 if self._observed_at is None else seconds_from_ns(MonoNs(now - self._observed_at))
        self._observed_at = now
        self._live = live
        self._settled = self._settle(live, now)
        learns = self._settled >= max(min(_LEARNED_FROM_MIN, self._prior), _SETTLED_SHARE * live)
        session_s = self._settled * passed_s if learns else 0.0
        keep = 0.5 ** (session_s / (self._settings.window_s * max(_EVIDENCE_SESSIONS, self._settled)))
        self._prior_weight *= keep
        self._evidence = keep * self._evidence + session_s
        for load in loads:
            meter = self._meters.get(load.name)
            if meter is None:
                engine = load.name in self._capacity.engines
                meter = self._meters[load.name] = Meter(load, engine)
            meter.take(load, passed_s, keep if learns else None, self._settings.window_s)
        self._limits = self._measured(loads)
        self._ends.observe(live, passed_s)
        self._brake.observe(live, now, passed_s)
        self._shed(live, now)

    def turn(self, ttfas_s: float, underrun_s: float, now: MonoNs) -> None:
        """Take how a turn went, for the brake; of a lone session nothing is taken, its turns are not late by load.

        Args:
            ttfas_s: end of the user's speech to the first sound of the reply.
            underrun_s: silence inside the reply that should not have been, 0 if it is not known yet.
            now: the present.
        """
        if self._live > 1:
            self._brake.turn(ttfas_s, underrun_s, self._live, now)

    # What follows from it. ------------------------------------------------------------------------------------------

    def decide(self, live: int, now: MonoNs) -> Decision:
        """Decide on one more session, and count it as admitted if so.

        Args:
            live: sessions at this moment, connecting ones included.
            now: the present.
        """
        self._live = live
        decision = self._decide(live, now)
        if decision.admitted:
            self._ends.admitted += 1
        else:
            self._ends.refused += 1
        return decision

    def full(self, live: int, now: MonoNs) -> Decision | None:
        """Return the refusal that `decide` would give at this moment, counted as one; None while there is room."""
        decision = self._decide(live, now)
        if decision.admitted:
            return None
        self._ends.refused += 1
        return decision

    def limits(self, live: int) -> list[Limit]:
        """Return every limit, the one that is nearest to its target first."""
        found = [
            Limit(name=m.name, kind=m.kind, load=m.share * live, per_session=m.share, recent=m.recent, limit=m.target)
            for m in self._limits
        ]
        return sorted(found, key=lambda limit: limit.load / limit.limit, reverse=True)

    def sessions_max(self) -> int:
        """Return how many sessions would be admitted as things stand; what the brake says is left out."""
        ceilings = [limit.sessions for limit in self.limits(0)] or [self._capacity.sessions_prior]
        ceilings.append(self._reach())
        if self._capacity.sessions_max is not None:
            ceilings.append(self._capacity.sessions_max)
        return max(1, min(ceilings))

    def braked(self, now: MonoNs) -> bool:
        """Return whether too many of the recent turns missed the SLO."""
        return self._brake.on(now)

    @property
    def video_share(self) -> float:
        """Share of the full video rate that may be sampled: 1, ½, ¼ … down to the floor of the settings."""
        return max(self._settings.video_share_min, 0.5**self._video_step)

    # Inside. --------------------------------------------------------------------------------------------------------

    def _decide(self, live: int, now: MonoNs) -> Decision:
        retry_after_s = self._ends.retry_after_s(self._settings.retry_after_s_max)
        known = admit(live, self._capacity.sessions_max, True, retry_after_s)
        if not known.admitted or live == 0 or not self._settings.measured:
            return known
        reason, limit = self._reached(live, now)
        if reason == "ok":
            return known
        return Decision(admitted=False, reason=reason, limit=limit, retry_after_s=retry_after_s)

    def _reached(self, live: int, now: MonoNs) -> tuple[Reason, str]:
        """Return what one more session would go beyond."""
        if self._brake.on(now) or live + 1 > self._brake.sessions_max:
            return "slo", "slo"
        for limit in self._limits:
            if limit.share + max(limit.share * live, limit.recent) > limit.target + _EPSILON:
                return limit.kind, limit.name
        if live + 1 > self._reach():
            return "ramp", "ramp"
        return "ok", ""

    def _reach(self) -> int:
        """Return how far the evidence reaches: the prior, or a factor beyond the sessions that have settled."""
        return max(self._capacity.sessions_prior, self._settled + 1, int(self._settings.reach * self._settled))

    def _settle(self, live: int, now: MonoNs) -> int:
        """Return how many of the live sessions have been here for a while."""
        self._lives.append((now, live))
        since = now - ns_from_seconds(self._settings.settle_s)
        while len(self._lives) > 1 and self._lives[1][0] <= since:
            self._lives.popleft()
        return min(count for _, count in self._lives) if self._lives[0][0] <= since else 0

    def _measured(self, loads: Sequence[Load]) -> list[_Measured]:
        target = self._settings.load_target
        believed = target / self._prior * self._prior_weight
        parallelism = self._capacity.parallelism
        limits: list[_Measured] = []
        devices: dict[str, tuple[float, float]] = {}
        for load in loads:
            meter = self._meters[load.name]
            kind: Kind = "loop" if load.name == LOOP else "stage"
            limits.append(_Measured(load.name, kind, (believed + meter.used) / self._evidence, meter.recent, target))
            used, recent = (meter.used, meter.recent)
            if load.device in parallelism:
                used, recent = (meter.threads, meter.recent_threads)
            before = devices.get(load.device, (0.0, 0.0))
            devices[load.device] = (before[0] + used, before[1] + recent)
        for device, (used, recent) in devices.items():
            width = parallelism.get(device, 1.0)
            share = (believed + used / width) / self._evidence
            limits.append(_Measured(device, "device", share, recent / width, target))
        held = sum(load.bytes_per_session for load in loads)
        if held and self._settings.memory_bytes_max:
            limits.append(_Measured("memory", "memory", held / self._settings.memory_bytes_max, 0.0, 1.0))
        return limits

    def _shed(self, live: int, now: MonoNs) -> None:
        """Take one step down or up in the video rate."""
        mark = self._settings.video_load
        busiest = max((max(m.share * live, m.recent) for m in self._limits if m.kind != "memory"), default=0.0)
        braked = self._brake.on(now)
        if (busiest > mark or braked) and 0.5**self._video_step > self._settings.video_share_min:
            self._video_step += 1
        elif busiest < mark - _VIDEO_BACK and not braked and self._video_step:
            self._video_step -= 1


class _Brake:
    """Whether the turns of late kept the SLO, and how many sessions are taken after they did not."""

    def __init__(self, settings: AdmissionSettings) -> None:
        self._settings = settings
        self._age_ns = ns_from_seconds(settings.slo_window_s)
        self._turns: deque[tuple[MonoNs, bool]] = deque()
        self._misses = 0
        self._engaged = False
        self.sessions_max = math.inf
        """Sessions taken after an overload; grows by one in each settling time."""

    def turn(self, ttfas_s: float, underrun_s: float, live: int, now: MonoNs) -> None:
        missed = ttfas_s > self._settings.slo_ttfas_s or underrun_s * 1000 > self._settings.slo_underrun_ms
        self._turns.append((now, missed))
        self._misses += missed
        if len(self._turns) > _TURNS_KEPT:
            self._forget()
        if self.on(now) and not self._engaged:
            self._engaged = True
            self.sessions_max = max(1, int(_BACK_OFF * min(live, self.sessions_max)))

    def observe(self, live: int, now: MonoNs, passed_s: float) -> None:
        if live == 0:  # whatever it was, it is gone
            self._turns.clear()
            self._misses = 0
            self.sessions_max = math.inf
        self._engaged = self.on(now)
        if not self._engaged:
            self.sessions_max += passed_s / self._settings.settle_s

    def on(self, now: MonoNs) -> bool:
        while self._turns and now - self._turns[0][0] > self._age_ns:
            self._forget()
        turns = len(self._turns)
        return turns >= _TURNS_MIN and self._misses >= max(
            _MISSES_MIN, self._settings.slo_misses_max * turns + _EPSILON
        )

    def _forget(self) -> None:
        self._misses -= self._turns.popleft()[1]


class _Ends:
    """How often sessions end: when a refused client should come back."""

    def __init__(self) -> None:
        self.admitted = 0
        """Since the last observation."""
        self.refused = 0
        self._live = 0
        self._ended = 0.0
        self._time_s = 0.0

    def observe(self, live: int, passed_s: float) -> None:
        keep = 0.5 ** (passed_s / _ENDS_KEPT_S)
        self._ended = keep * self._ended + max(0, self._live + self.admitted - live)
        self._time_s = keep * self._time_s + passed_s
        self._live = live
        self.admitted = self.refused = 0

    def retry_after_s(self, most: int) -> int:
        """Return whole seconds until a place is likely to be free, later for those who were refused after others."""
        if self._ended < _EPSILON:
            return min(_RETRY_S, most)
        return max(1, min(most, math.ceil((1 + self.refused) * self._time_s / self._ended)))
