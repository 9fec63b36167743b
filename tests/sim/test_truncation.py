"""`truncation` of a session, on the context trimming of docs/sessions.md."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.session.context import estimate_tokens
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
ROOM = 400
LONG = "and so it goes on and on " * 8
"""67 tokens."""


def connect(truncation: Any) -> tuple[Server, Session]:
    server = Server(SimOptions(vad="level", history_tokens=ROOM, script=("It is so.",)))
    return server, server.connect(
        "websocket", wire={"type": "realtime", "truncation": truncation, "duplex": {"events": True}}
    )


def talk(server: Server, session: Session, turns: int) -> None:
    for _ in range(turns):
        session.type_text(LONG)
        server.advance(3000)


def tokens(server: Server, n: int) -> int:
    return sum(estimate_tokens(message.text) + 8 for message in server.stage("think").prompts[n].messages)


def test_the_retention_ratio_is_what_is_left_at_a_step() -> None:
    steps = {}
    for ratio in (0.1, 0.9):
        server, session = connect({"type": "retention_ratio", "retention_ratio": ratio})
        talk(server, session, 12)
        steps[ratio] = len(session.client.of("duplex.context.trimmed"))
        assert all(each["response"]["status"] == "completed" for each in session.client.of("response.done"))
    assert steps[0.9] > 2 * steps[0.1] > 0


def test_a_limit_behind_the_instructions_lowers_the_bound() -> None:
    server, session = connect({
        "type": "retention_ratio", "retention_ratio": 0.5, "token_limits": {"post_instructions": 200}
    })  # fmt: skip
    talk(server, session, 6)
    assert max(tokens(server, n) for n in range(6)) <= 200
    session.event(type="session.update", session={"truncation": "auto"})
    talk(server, session, 6)
    assert 200 < max(tokens(server, n) for n in range(6, 12)) <= ROOM
    assert session.client.of("session.updated")[0]["session"]["truncation"] == "auto"


def test_disabled_fails_the_response_and_keeps_the_conversation() -> None:
    server, session = connect("disabled")
    talk(server, session, 6)
    done = [event["response"] for event in session.client.of("response.done")]
    states = [each["status"] for each in done]
    assert states == sorted(states)
    assert states[-1] == "failed"
    assert done[-1]["status_details"]["error"]["code"] == "context_length_exceeded"
    error = session.client.of("error")[0]["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "context_length_exceeded")
    assert not session.client.of("duplex.context.trimmed")
    session.event(type="session.update", session={"truncation": None})
    talk(server, session, 1)
    assert session.client.of("response.done")[-1]["response"]["status"] == "completed"
    server.check()


def test_a_spoken_turn_over_the_bound_fails_as_well() -> None:
    server, session = connect("disabled")
    session.event(
        type="conversation.item.create",
        item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": LONG * 8}]},
    )
    session.say(900)
    server.advance(4000)
    assert [event["response"]["status"] for event in session.client.of("response.done")] == ["failed"]
    assert not server.stage("think").prompts
    server.check()


def test_a_response_beside_the_conversation_over_the_bound_fails_alone() -> None:
    server, session = connect("disabled")
    long = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": LONG * 8}]}
    asked = {"conversation": "none", "output_modalities": ["text"]}
    session.event(type="response.create", response=asked | {"input": [long]})
    assert session.client.of("error")[0]["error"]["code"] == "context_length_exceeded"
    session.event(type="response.create", response=asked | {"input": []})
    server.advance(2000)
    assert [event["response"]["status"] for event in session.client.of("response.done")] == ["failed", "completed"]
    server.check()
