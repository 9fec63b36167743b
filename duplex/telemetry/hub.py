"""All that looks at one process, behind the calls that the other parts know: measures, session watches, stage spans.

    measures ──► Observer ──► Prometheus            sessions, spans ──► Timelines ──► Perfetto traces
                   └────────► Window ──► snapshot                   └─► TurnCollector ──► OpenTelemetry

A part of it that fails is logged and left out from then on, for that session; no conversation ends by being looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from duplex.config import TelemetrySettings
from duplex.payloads import Role
from duplex.protocol import TransportName
from duplex.session.effects import Effect, Send
from duplex.session.events import TurnMetrics
from duplex.session.lane import Lane
from duplex.session.messages import Inbound
from duplex.stages.runner import StageLoad, StageSpan
from duplex.telemetry.beside import beside
from duplex.telemetry.live import Live, LiveHost
from duplex.telemetry.logs import log_failure
from duplex.telemetry.metrics import Observer
from duplex.telemetry.timeline import About, Timelines
from duplex.telemetry.turns import Turn, TurnCollector
from duplex.telemetry.window import KEPT, PART, Window, parts_of
from duplex.units import MonoNs, ns_from_ms

_INPUT_ROLES: Final = frozenset({Role.VAD, Role.TICK})
"""Stages that work all the time, thirty times a second for each session …"""
_SLOW_NS: Final = ns_from_ms(10)
"""… so that only those of their jobs are looked at that took this long, waiting included."""


class Clock(Protocol):
    """The process's clock, and how it stands to the time of day."""

    @property
    def now(self) -> Callable[[], MonoNs]:
        """Returns the present."""

    def unix_ns(self, at: MonoNs) -> int:
        """Return a moment as Unix time in nanoseconds."""


class _Observing(Protocol):
    """One part that looks at a session: a `SessionWatch` that also takes its stage spans."""

    def took(self, message: Inbound, lane: Lane, now: MonoNs) -> None: ...
    def gave(self, effect: Effect, now: MonoNs) -> None: ...
    def span(self, span: StageSpan) -> None: ...
    def ended(self, now: MonoNs) -> None: ...


class Telemetry:
    """The observers of a process. Its clock must be the one that sessions and stages use.

    Args:
        settings: bounds.
        observer: the process's measures; every one that it records is taken here too.
        clock: the process's clock.
        export: takes each turn that is over; None: nobody wants them.
    """

    def __init__(
        self,
        settings: TelemetrySettings,
        observer: Observer,
        clock: Clock,
        export: Callable[[Turn], None] | None = None,
    ) -> None:
        self.settings = settings
        self.observer = observer
        self.clock = clock
        self.timelines = Timelines(settings)
        self._export = export
        self._now = clock.now
        self._began_at = clock.now()
        self._window = Window(
            window_s=settings.window_s,
            bucket_s=settings.bucket_s,
            history_s=settings.history_s,
            values_max=settings.window_values_max,
            now=self._began_at,
        )
        self._watches: dict[str, SessionObservers] = {}
        self._counted: dict[str, StageLoad] = {}
        observer.also(self._take)

    # What the other parts call. -------------------------------------------------------------------------------------

    def session(self, session_id: str, conversation_id: str, transport: TransportName, now: MonoNs) -> SessionObservers:
        """A session began: return what looks at it."""
        parts: list[_Observing] = []
        if self.settings.timeline_events_max:
            about = About(
                session_id=session_id,
                conversation_id=conversation_id,
                transport=transport,
                opened_at=now,
                opened_unix_ns=self.clock.unix_ns(now),
            )
            parts.append(self.timelines.open(about))
        if self._export is not None:
            parts.append(TurnCollector(conversation_id, self._export))
        watch = self._watches[session_id] = SessionObservers(session_id, parts, self)
        return watch

    def span(self, span: StageSpan) -> None:
        """A job has left a stage."""
        if span.role in _INPUT_ROLES and span.ended_at - span.queued_at < _SLOW_NS:
            return
        watch = self._watches.get(span.address.session)
        if watch is not None:
            watch.span(span)

    def turn(self, metrics: TurnMetrics) -> None:
        """A turn's first audio has left."""
        for part, seconds in parts_of(metrics).items():
            self.observer.observe(PART, seconds, part=part)

    def forget(self, session_id: str, now: MonoNs) -> None:
        """A session ended."""
        self._watches.pop(session_id, None)
        self.timelines.close(session_id, now)

    # What those ask who watch. --------------------------------------------------------------------------------------

    def live(self, host: LiveHost) -> Live:
        """Return what makes snapshots of `host`."""
        return Live(host, self._window, self._began_at)

    def measure_stages(self, host: LiveHost) -> None:
        """Bring the measures that are looked up, and not told, up to date."""
        observe = self.observer.observe
        observe("duplex_sessions_max", host.sessions_max)
        for load in host.stage_loads():
            before = self._counted.get(load.name)
            self._counted[load.name] = load
            observe("duplex_stage_queued_jobs", load.queued, stage=load.name)
            observe("duplex_stage_queued_media_seconds", load.queued_ms / 1000, stage=load.name)
            observe("duplex_stage_running_jobs", load.running, stage=load.name)
            for name, now, then in (
                ("duplex_stage_busy_seconds_total", load.busy_s, before.busy_s if before else 0.0),
                ("duplex_stage_job_seconds_total", load.slot_busy_s, before.slot_busy_s if before else 0.0),
            ):
                observe(name, max(0.0, now - then), stage=load.name)

    def _take(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        if name in KEPT:
            self._window.record(name, value, labels, self._now())


class SessionObservers:
    """What looks at one session; a `SessionWatch`.

    Args:
        session_id: whose.
        parts: told in turn; one that raises is left out from then on.
        telemetry: of the process.
    """

    def __init__(self, session_id: str, parts: list[_Observing], telemetry: Telemetry) -> None:
        self._session_id = session_id
        self._parts = parts
        self._telemetry = telemetry

    def took(self, message: Inbound, lane: Lane, now: MonoNs) -> None:
        """The core has taken a message."""
        if beside(message):
            return
        for part in self._parts:
            try:
                part.took(message, lane, now)
            except Exception as error:  # noqa: BLE001 - an observer's root: the conversation goes on without it
                self._leave_out(part, error)

    def gave(self, effect: Effect, now: MonoNs) -> None:
        """The core asked for an effect."""
        if type(effect) is Send and type(effect.event) is TurnMetrics:
            self._telemetry.turn(effect.event)
        if beside(effect):
            return
        for part in self._parts:
            try:
                part.gave(effect, now)
            except Exception as error:  # noqa: BLE001 - as above
                self._leave_out(part, error)

    def span(self, span: StageSpan) -> None:
        """A job of the session has left a stage."""
        for part in self._parts:
            try:
                part.span(span)
            except Exception as error:  # noqa: BLE001 - as above
                self._leave_out(part, error)

    def ended(self, now: MonoNs) -> None:
        """The session has given everything back."""
        for part in self._parts:
            try:
                part.ended(now)
            except Exception as error:  # noqa: BLE001 - as above
                self._leave_out(part, error)
        self._telemetry.forget(self._session_id, now)

    def _leave_out(self, part: _Observing, error: Exception) -> None:
        self._parts = [other for other in self._parts if other is not part]
        log_failure("observer_failed", error, session_id=self._session_id, observer=type(part).__name__)
