"""Nothing for nothing: while a session only listens, no stage computes, no core is told anything and nothing wakes, but the VAD."""

from __future__ import annotations

from typing import Any

import pytest

from duplex.session.core import Why
from duplex.session.messages import Heard
from duplex.stages.contract import Role
from loadgen.trace import SessionTrace
from tests.sim.simulated import POLICIES, Watched, profile, turn
from tests.sim.world import Server

pytestmark = pytest.mark.sim
QUIET_S = 60.0
AFTER_S = 3.0
"""After an answer: its last words play, silence is told until the ear has settled."""


@pytest.mark.parametrize("policy", POLICIES)
def test_a_session_that_listens_costs_nothing_in_the_simulator(policy: str) -> None:
    silent = turn(gap_s=QUIET_S + 5, answer_words=8)
    world = Watched(profile(), policy)
    scheduled: list[tuple[float, str]] = []
    call_at = world.clock.call_at

    def watched(when: Any, call: Any) -> Any:
        scheduled.append((world.now_s, call.__qualname__))
        return call_at(when, call)

    world.clock.call_at = watched  # type: ignore[method-assign]
    result = world.run([SessionTrace(session="a", at_s=0, turns=(silent, silent))])
    first, second = result.rows
    assert first.ttfas_s is not None and second.ttfas_s is not None
    heard_until = first.ended_s + first.ttfas_s + first.heard_s
    for begin, end in ((0.1, QUIET_S), (heard_until + AFTER_S, heard_until + QUIET_S)):
        assert not [span for span in world.spans if begin <= span.ended_at / 1e9 <= end]
        assert not [message for when, _, message in world.messages if begin <= when <= end]
        assert {call for when, call in scheduled if begin <= when <= end} == {"World._watch"}  # admission's look
    assert world.row("a").heard_s > 2


def test_a_session_that_listens_costs_its_vad_and_nothing_else_on_the_production_actor() -> None:
    server = Server()
    session = server.connect()
    messages: list[object] = []
    handle = session.actor._core.handle

    def handled(message: Any, now: Any) -> None:
        messages.append(message)
        handle(message, now)

    server.advance(200)
    session.actor._core.handle = handled  # type: ignore[method-assign]
    before = len(session.client.events), len(session.effects), len(server.spans)
    server.advance(QUIET_S * 1000)
    windows = QUIET_S / 0.032
    spans = server.spans[before[2] :]
    assert {span.role for span in spans} == {Role.VAD}
    assert len(spans) == pytest.approx(windows, abs=1)
    assert (len(session.client.events), len(session.effects)) == before[:2]
    deadline = session.actor._core.next_deadline()
    assert deadline is not None and deadline[1] is Why.LIFETIME  # and so it is woken once in hours
    assert all(isinstance(message, Heard) for message in messages)
    assert len(messages) <= QUIET_S / 0.25  # silence is told in long stretches
