"""Many responses beside the conversation at once: a bound for each session, no wait for others, and counted by admission."""

from __future__ import annotations

import pytest

from tests.sim.test_out_of_band import LONG, aside, ended, serve
from tests.sim.world import Session

pytestmark = pytest.mark.sim
BURST = 50
MOST = 4
"""As the defaults say."""


def errors(session: Session) -> list[tuple[str, str]]:
    return [(event["error"]["code"], event["error"]["event_id"]) for event in session.client.of("error")]


def answered_after(burst: int) -> tuple[Session, int]:
    """Have one session ask for many at once and another for an answer; returns the first, and the other's wait in ns."""
    server = serve(LONG, parallel=MOST)
    crowd, other = server.connect("websocket"), server.connect("webrtc")
    for n in range(burst):
        aside(crowd, f"e{n}")
    server.advance(20)
    asked_at = server.world.now()
    other.type_text("go")
    server.advance(20_000)
    server.check()
    return crowd, other.client.at("output_audio_buffer.started") - asked_at


def test_a_burst_is_refused_over_the_bound_each_with_its_event_and_another_session_waits_for_none_of_it() -> None:
    _, alone_ns = answered_after(0)
    crowd, ns = answered_after(BURST)
    assert errors(crowd) == [("too_many_out_of_band_responses", f"e{n}") for n in range(MOST, BURST)]
    assert list(ended(crowd).values()) == ["completed"] * MOST
    assert ns == alone_ns, "text goes behind what somebody listens to, though it held all of the thinker's slots"


def test_the_bound_is_of_one_session() -> None:
    server = serve(LONG)
    sessions = [server.connect("websocket") for _ in range(3)]
    for session in sessions:
        for n in range(MOST):
            aside(session, f"e{n}")
    server.advance(5000)
    assert all(list(ended(session).values()) == ["completed"] * MOST for session in sessions)
    assert [errors(session) for session in sessions] == [[], [], []]


def test_their_work_is_in_the_load_by_which_sessions_are_admitted() -> None:
    server = serve(LONG)
    session = server.connect("websocket")
    for n in range(MOST):
        aside(session, f"e{n}")
    server.advance(5000)
    (think,) = (load for load in server.runners.loads() if load.name == "think")
    assert think.jobs_done == MOST
    assert think.slot_busy_s > MOST * 40 * 0.02, "of each, the time of its 40 words"
