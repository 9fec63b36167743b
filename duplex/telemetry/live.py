"""The live snapshot, put together from the window's measures and from what the host says of its sessions and stages."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import duplex
from duplex.actor.watch import LiveSession
from duplex.stages.contract import ModelPack
from duplex.stages.runner import StageLoad
from duplex.telemetry.snapshot import (
    AdmissionView,
    BargeInView,
    LaneView,
    LimitView,
    LoopView,
    ModelView,
    SessionsView,
    Snapshot,
    StageView,
    TtfasSplit,
    TtfasView,
    UnderrunsView,
)
from duplex.telemetry.window import PART, PARTS, UNDERRUN_S, UNDERRUNS, Window
from duplex.units import MonoNs, ms_from_samples, ns_from_seconds, seconds_from_ns


class Limit(Protocol):
    """One thing that bounds how many sessions are taken."""

    @property
    def name(self) -> str: ...
    @property
    def load(self) -> float: ...
    @property
    def limit(self) -> float: ...


class LiveHost(Protocol):
    """What the snapshot asks of whoever holds the sessions."""

    @property
    def pack(self) -> ModelPack: ...
    @property
    def sessions(self) -> int: ...
    @property
    def sessions_max(self) -> int: ...
    @property
    def draining(self) -> bool: ...

    def live_sessions(self) -> Sequence[LiveSession]:
        """Every live session, oldest first."""

    def stage_loads(self) -> Sequence[StageLoad]:
        """How busy every stage is, in the order of the graph."""

    def admission_limits(self) -> Sequence[Limit]:
        """What bounds the number of sessions, as admission sees it."""


class StageHistory:
    """The stages' running counts over the window, looked at once in a bucket's time.

    Args:
        window_s: how far back it goes.
        bucket_s: time between two looks.
    """

    def __init__(self, window_s: float, bucket_s: float) -> None:
        self._every_ns = ns_from_seconds(bucket_s)
        self._looks: deque[tuple[MonoNs, dict[str, StageLoad]]] = deque(maxlen=max(1, round(window_s / bucket_s)))

    def look(self, loads: Sequence[StageLoad], now: MonoNs) -> None:
        """Take the counts as they stand, unless it was done a moment ago."""
        if not self._looks or now - self._looks[-1][0] >= self._every_ns:
            self._looks.append((now, {load.name: load for load in loads}))

    def since(self, load: StageLoad, now: MonoNs) -> tuple[float, float, float]:
        """Return seconds passed since the oldest look, and of them busy seconds and job-seconds of a stage."""
        if not self._looks or load.name not in self._looks[0][1]:
            return 0.0, 0.0, 0.0
        at, before = self._looks[0]
        then = before[load.name]
        return seconds_from_ns(MonoNs(now - at)), load.busy_s - then.busy_s, load.slot_busy_s - then.slot_busy_s


class Live:
    """Makes snapshots of one host.

    Args:
        host: whose.
        window: its measures.
        began_at: when the server did.
    """

    def __init__(self, host: LiveHost, window: Window, began_at: MonoNs) -> None:
        self._host = host
        self._window = window
        self._began_at = began_at
        self._stages = StageHistory(window.window_s, window.bucket_s)
        self._seq = 0

    def look(self, now: MonoNs) -> None:
        """Note what a first watcher will want to know of the past; called once in a bucket's time."""
        self._window.close_buckets(now)
        self._stages.look(self._host.stage_loads(), now)

    def snapshot(self, now: MonoNs, unix_s: float) -> Snapshot:
        """Return the server as it is at `now`, which is `unix_s` in Unix time."""
        self._seq += 1
        host, window = self._host, self._window
        return Snapshot(
            seq=self._seq,
            at_s=round(unix_s, 3),
            uptime_s=round(seconds_from_ns(MonoNs(now - self._began_at)), 1),
            version=duplex.__version__,
            model=ModelView(name=host.pack.name, test_double=host.pack.test_double),
            window_s=window.window_s,
            bucket_s=window.bucket_s,
            sessions=SessionsView(live=host.sessions, max=host.sessions_max, draining=host.draining),
            ttfas=self._ttfas(now),
            history=window.history(now, unix_s),
            underruns=UnderrunsView(
                window_n=round(window.amount(UNDERRUNS, now=now)),
                window_s=round(window.amount(UNDERRUN_S, now=now), 3),
                total_n=round(window.total(*UNDERRUNS)),
                total_s=round(window.total(*UNDERRUN_S), 3),
            ),
            barge_in=BargeInView(
                detect=window.quantiles("duplex_barge_in_seconds", "detect", now=now),
                confirm=window.quantiles("duplex_barge_in_seconds", "confirm", now=now),
                egress=window.quantiles("duplex_barge_in_seconds", "egress", now=now),
                outcomes=window.amounts("duplex_barge_in_total", now=now),
            ),
            lanes=[_lane(session, now) for session in host.live_sessions()],
            stages=self._stage_views(now),
            admission=self._admission(),
            loop=LoopView(
                lag=window.quantiles("duplex_event_loop_lag_seconds", now=now),
                lateness=window.quantiles("duplex_send_lateness_seconds", now=now),
                overhead=window.quantiles("duplex_server_overhead_seconds", now=now),
            ),
            invariants_broken=round(window.total("duplex_invariant_violations_total")),
            stale_packets=round(window.total("duplex_stale_packets_total")),
        )

    def _ttfas(self, now: MonoNs) -> TtfasView:
        window = self._window
        return TtfasView(
            sent=window.quantiles("duplex_ttfas_seconds", "sent", now=now),
            heard=window.quantiles("duplex_ttfas_seconds", "heard", now=now),
            split=TtfasSplit(**{part: window.quantiles(PART, part, now=now) for part in PARTS}),
        )

    def _stage_views(self, now: MonoNs) -> list[StageView]:
        loads = self._host.stage_loads()
        self._stages.look(loads, now)
        return [self._stage(load, now) for load in loads]

    def _stage(self, load: StageLoad, now: MonoNs) -> StageView:
        passed_s, busy_s, slot_busy_s = self._stages.since(load, now)
        return StageView(
            name=load.name,
            role=load.role.value,
            device=load.device,
            slots=load.slots,
            queued=load.queued,
            queued_ms=load.queued_ms,
            running=load.running,
            batch_mean=round(slot_busy_s / busy_s, 2) if busy_s > 0 else None,
            step_ms=round(load.step_s * 1000, 2),
            busy=round(min(1.0, busy_s / passed_s), 4) if passed_s > 0 else 0.0,
            queue_p95_s=self._window.quantiles("duplex_stage_queue_seconds", load.name, now=now).p95,
        )

    def _admission(self) -> AdmissionView:
        limits = self._host.admission_limits()
        return AdmissionView(
            admitted=round(self._window.total("duplex_admission_total", "admitted")),
            refused=self._window.totals("duplex_admission_total", "refused"),
            limits=[LimitView(name=x.name, load=round(x.load, 4), limit=round(x.limit, 4)) for x in limits],
        )


def _lane(session: LiveSession, now: MonoNs) -> LaneView:
    state = session.state
    return LaneView(
        key=session.key,
        mode=state.mode if session.opened else "connecting",
        transport=session.transport,
        lead_ms=ms_from_samples(state.lead),
        target_ms=None if state.target is None else ms_from_samples(state.target),
        slack_ms=None if state.slack_ns is None else round(state.slack_ns / 1e6),
        epoch=state.epoch,
        age_s=round(seconds_from_ns(MonoNs(now - session.began_at)), 1),
    )
