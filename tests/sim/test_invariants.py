"""The invariants of DESIGN.md §1 as properties: random scripts of users, clients and stage costs on simulated time."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from duplex_models.sim import SimOptions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sim.chaos import ACTIONS, Watch, act
from tests.sim.world import Server

pytestmark = pytest.mark.sim
TEXT = "One two three four, five six seven. " * 6
scripts = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(20, 1500)), min_size=3, max_size=25)


@given(scripts, st.sampled_from(["webrtc", "websocket"]), st.integers(0, 1000), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_happens_every_invariant_holds(
    script: list[tuple[str, int]], transport: Any, seed: int, slow: bool
) -> None:
    server = Server(SimOptions(vad="level", script=(TEXT, "Short."), token_s=0.01), seed=seed)
    if slow:
        for stage in ("transcribe", "end_of_turn", "talk", "vocode"):
            server.world.costs[stage] = functools.partial(server.world.random.uniform, 0.0, 0.2)
    session, bystander = server.connect(transport), server.connect()
    bystander.type_text("go")
    watch = Watch(session)
    for action, number in script:
        act(session, action, number)
        watch.check()
        server.advance(number)
        watch.check()
    server.check()
    assert not session.ended
    session.leave()
    server.advance(15_000)
    watch.check()
    server.check()
    assert session.ended == [session.actor.session_id]
    assert server.runners.idle
    done = [event["response"]["status"] for event in bystander.client.of("response.done")]
    assert done == ["completed"]
    created = [event["response"]["id"] for event in bystander.client.of("response.created")]
    assert all(
        reply in created for event in bystander.client.of("response.done") for reply in [event["response"]["id"]]
    )


@given(scripts, st.integers(0, 1000))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_reply_that_began_ends_exactly_once(script: list[tuple[str, int]], seed: int) -> None:
    server = Server(SimOptions(vad="level", script=(TEXT,)), seed=seed)
    session = server.connect()
    for action, number in script:
        act(session, action, number)
        server.advance(number)
    session.mute()
    server.advance(30_000)
    created = [event["response"]["id"] for event in session.client.of("response.created")]
    done = [event["response"]["id"] for event in session.client.of("response.done")]
    assert sorted(created) == sorted(done)
    assert not session.actor._core.lane.alive
