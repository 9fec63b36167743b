"""A simulated server that telemetry looks at: the production observers over the production actor, on simulated time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from duplex_models.sim import SimOptions

from duplex.actor.watch import LiveSession
from duplex.config import TelemetrySettings
from duplex.telemetry import Observer
from duplex.telemetry.hub import Telemetry
from duplex.telemetry.timeline import Timeline
from duplex.telemetry.turns import Turn
from duplex.units import MonoNs
from tests.sim.world import Server, Session, World

UNIX_NS = 1_700_000_000_000_000_000
"""Unix time at the world's beginning."""


class WorldClock:
    """The world's clock, as telemetry asks it."""

    def __init__(self, world: World) -> None:
        self.now = world.now

    def unix_ns(self, at: MonoNs) -> int:
        return UNIX_NS + at


class WatchedServer(Server):
    """A simulated server whose sessions and stages are watched; `turns` are those that are over."""

    def __init__(self, settings: TelemetrySettings | None = None, **options: Any) -> None:
        super().__init__(SimOptions(**{"vad": "level", "first_token_s": 0.05, "token_s": 0.01} | options))
        self.turns: list[Turn] = []
        self.observer = Observer()
        self.telemetry = Telemetry(
            settings or TelemetrySettings(), self.observer, WorldClock(self.world), self.turns.append
        )
        self.context = replace(self.context, watch=self.telemetry, observe=self.observer.record)
        for runner in self.runners.runners.values():
            runner._on_span = self.telemetry.span

    def timeline(self, session: Session) -> Timeline:
        """Return what is known of a session."""
        found = self.telemetry.timelines.find(session.actor.session_id, self.world.now())
        assert found is not None
        return found.copy()


class SimHost:
    """What a snapshot asks of a host, answered by a simulated server."""

    sessions_max = 10
    draining = False
    admission_limits = staticmethod(lambda: [SimpleNamespace(name="loop", load=0.25, limit=0.8)])

    def __init__(self, server: WatchedServer) -> None:
        self.pack = server.pack
        self.stage_loads = server.runners.loads
        self._server = server

    @property
    def sessions(self) -> int:
        return len(self.live_sessions())

    def live_sessions(self) -> list[LiveSession]:
        return [
            LiveSession(
                key=key,
                transport=session.actor.transport_name,
                opened=session.actor.opened,
                began_at=MonoNs(0),
                state=session.actor.lane_state(),
            )
            for key, session in enumerate(self._server.sessions)
            if not session.ended
        ]
