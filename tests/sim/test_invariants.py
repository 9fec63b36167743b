"""The invariants of DESIGN.md §1 as properties: random scripts of users, clients and stage costs on simulated time."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from duplex_models.sim import SimOptions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duplex.session.effects import SubmitUtterance
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
TEXT = "One two three four, five six seven. " * 6
ACTIONS = [
    "speak", "cough", "cancel", "create", "clear_output", "commit", "clear_input", "truncate", "type", "retrieve",
    "unknown", "no_detection", "detection", "report", "delete",
]  # fmt: skip
scripts = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(20, 1500)), min_size=3, max_size=25)


def items_of(session: Session) -> list[str]:
    return [event["item"]["id"] for event in session.client.of("conversation.item.added")]


def act(session: Session, action: str, number: int) -> None:
    items = items_of(session) or ["item_none"]
    item = items[number % len(items)]
    turn_detection: Any = {"type": "semantic_vad"} if action == "detection" else None
    events: dict[str, dict[str, Any]] = {
        "cancel": {"type": "response.cancel"},
        "create": {"type": "response.create"},
        "clear_output": {"type": "output_audio_buffer.clear"},
        "commit": {"type": "input_audio_buffer.commit"},
        "clear_input": {"type": "input_audio_buffer.clear"},
        "truncate": {"type": "conversation.item.truncate", "item_id": item, "content_index": 0, "audio_end_ms": number},
        "retrieve": {"type": "conversation.item.retrieve", "item_id": item},
        "delete": {"type": "conversation.item.delete", "item_id": item},
        "unknown": {"type": "unknown.event"},
        "report": {"type": "duplex.playback.report", "response_id": "resp_none", "played_ms": number},
    }
    match action:
        case "speak":
            session.say(350 + number)
        case "cough":
            session.say(120)
        case "type":
            session.type_text("hello")
        case "detection" | "no_detection":
            audio = {"input": {"turn_detection": turn_detection}}
            session.event(type="session.update", session={"type": "realtime", "audio": audio})
        case _:
            session.event(event_id=f"e{number}", **events[action])


class Watch:
    """Looks at one session after every step."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._fronts: dict[str, tuple[int, int]] = {}
        self._watermark = 0

    def check(self) -> None:
        core = self._session.actor._core
        assert core._ear.watermark.position >= self._watermark
        self._watermark = core._ear.watermark.position
        for reply in core.lane:
            sent, played = core.lane.sent(reply), core.lane.played(reply)
            assert reply.generated >= sent >= played
            before = self._fronts.get(reply.id, (0, 0))
            assert sent >= before[0] and played >= before[1]
            self._fronts[reply.id] = sent, played
        assert sum(not reply.done for reply in core.lane) <= 1
        for item in core.conversation._items:
            if item.spoken is not None:
                assert item.spoken.text.startswith(item.heard_text())
        server = self._session.server
        assert all(
            runner.load().queued_ms <= server.settings.stages.queue_ms_max for runner in server.runners.runners.values()
        )
        assert self._session.actor.egress.waiting <= 48 * server.settings.pacing.generated_ms_max + 48_000
        for when, effect in self._session.effects:
            if isinstance(effect, SubmitUtterance):
                assert effect.span.end <= when * 48_000 // 10**9 + 960


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
