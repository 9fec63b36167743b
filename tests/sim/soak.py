"""Many sessions that come, do anything and go, on one server whose stages break at random; every invariant after every step."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from duplex_models.sim import SimOptions

from duplex.config import Settings, StageSettings
from duplex.payloads import StageError
from tests.sim.chaos import ACTIONS, Watch, act
from tests.sim.world import Server, Session

STAGES = ("vad", "end_of_turn", "transcribe", "talk", "vocode")
AT_ONCE = 25
"""Sessions at a time."""
KINDS = ("raises", "memory", "error", "hangs", "slow")
STEP_MS = (200, 900)
ACTS, LEAVES, BREAKS = 0.35, 0.04, 0.2
"""Chances within a step: of a session that it does something or leaves, of a sound server that a stage breaks."""
TEXT = "One two three four, five six seven. " * 6


class Faults:
    """Breaks one stage at a time, for a while: it raises, runs out of memory, reports an error, hangs, or is slow.

    Args:
        server: the server; its step timeout is shorter than a hang.
        rng: chooses.
    """

    def __init__(self, server: Server, rng: Random) -> None:
        self.counts: Counter[str] = Counter()
        self._server = server
        self._rng = rng
        self._mend: Callable[[], None] | None = None
        self._until = 0
        self._next: list[str] = []

    def step(self) -> None:
        """Perhaps break a stage; mend the one that was broken for long enough."""
        if self._mend is not None and self._server.world.now() >= self._until:
            self.mend()
        elif self._mend is None and self._rng.random() < BREAKS:
            self._next = self._next or self._rng.sample(KINDS, len(KINDS))
            self._break(self._rng.choice(STAGES), self._next.pop())
            self._until = self._server.world.now() + int(self._rng.uniform(0.5, 6) * 1e9)

    def mend(self) -> None:
        """Mend what is broken."""
        if self._mend is not None:
            self._mend()
            self._mend = None

    def _break(self, name: str, kind: str) -> None:
        self.counts[kind] += 1
        stage, costs = self._server.stage(name), self._server.world.costs
        if kind in ("hangs", "slow"):
            before = costs[name]
            costs[name] = lambda: 4.0 if kind == "hangs" else 0.4
            self._mend = functools.partial(costs.__setitem__, name, before)
            return
        step = stage.step

        def broken(jobs: list[Any]) -> list[Any]:
            if kind == "error":
                return [StageError(reason="broken for a test") for _ in jobs]
            raise MemoryError if kind == "memory" else RuntimeError("broken for a test")

        stage.step = broken
        self._mend = functools.partial(setattr, stage, "step", step)


def soak(seed: int, sessions: int) -> Counter[str]:
    """Let sessions come and go until so many were there, then let all leave; return what happened.

    Raises:
        AssertionError: an invariant did not hold, or something was not given back.
    """
    settings = Settings(stages=StageSettings(step_timeout_s=2))
    server = Server(SimOptions(vad="level", script=(TEXT, "Short."), token_s=0.01), settings, seed)
    rng = server.world.random
    for stage in STAGES:
        server.world.costs[stage] = functools.partial(rng.uniform, 0.0, 0.02)
    faults, here, counts = Faults(server, rng), dict[Session, Watch](), Counter[str]()
    while counts["sessions"] < sessions or here:
        while len(here) < AT_ONCE and counts["sessions"] < sessions:
            session = server.connect(rng.choice(["webrtc", "webrtc", "websocket"]))
            here[session] = Watch(session)
            counts["sessions"] += 1
        faults.step()
        for session in list(here):
            if rng.random() < ACTS:
                act(session, rng.choice(ACTIONS), rng.randrange(20, 1500))
                counts["acts"] += 1
            if rng.random() < LEAVES:
                session.leave()
        server.advance(rng.uniform(*STEP_MS))
        server.check()
        server.measures.clear()
        server.spans.clear()
        for session, watch in list(here.items()):
            watch.check()
            if session.ended:
                counts += _gone(server, here, session)
    faults.mend()
    server.advance(15_000)
    server.check()
    assert server.runners.idle and not server.runners.lanes._epochs
    assert not server.stage("vocode")._state and server.stage("think").running == 0
    return counts + faults.counts


def _gone(server: Server, here: dict[Session, Watch], session: Session) -> Counter[str]:
    """Forget a session that has ended, and return what it was told."""
    assert session.ended == [session.actor.session_id] and session.client.closed != "error"
    del here[session]
    server.sessions.remove(session)
    replies = Counter(f"replies {event['response']['status']}" for event in session.client.of("response.done"))
    return replies + Counter(errors=len(session.client.of("error")))
