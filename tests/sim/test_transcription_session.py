"""Sessions of `type: transcription`: what is said is written down, and nothing is answered."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.session.config import TurnDetection
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
TRANSCRIPTION = "conversation.item.input_audio_transcription"


def connect(server: Server, **listening: Any) -> Session:
    return server.connect("websocket", wire={"type": "transcription", "audio": {"input": listening}})


def test_a_turn_is_transcribed_and_not_answered() -> None:
    server = Server(SimOptions(vad="level", partials=("hello",), transcripts=("hello there",)))
    session = connect(server)
    created = session.client.of("session.created")[0]["session"]
    assert (created["type"], created["object"]) == ("transcription", "realtime.transcription_session")
    assert created.keys() == {"type", "object", "id", "expires_at", "include", "audio"}
    assert created["audio"]["input"]["turn_detection"]["create_response"] is False
    for _ in range(2):
        session.say(1500)
        server.advance(4000)
    (first, second) = session.client.of(f"{TRANSCRIPTION}.completed")
    assert first["transcript"] == second["transcript"] == "hello there"
    deltas = [
        each["delta"] for each in session.client.of(f"{TRANSCRIPTION}.delta") if each["item_id"] == first["item_id"]
    ]
    assert "".join(deltas) == "hello there"
    assert first["usage"]["type"] == "duration"
    assert not session.client.of("response.created", "error")
    assert not server.stage("think").prompts
    server.check()


def test_a_turn_that_cannot_be_transcribed_fails_and_the_next_is_heard() -> None:
    server = Server(SimOptions(vad="level", transcripts=("fine",)))
    session = connect(server)
    step = server.stage("transcribe").step

    def broken(*args: Any, **named: Any) -> Any:
        raise RuntimeError("broken")

    server.stage("transcribe").step = broken
    session.say(900)
    server.advance(2500)
    server.stage("transcribe").step = step
    server.advance(5000)
    session.say(900)
    server.advance(2500)
    assert len(session.client.of(f"{TRANSCRIPTION}.failed")) == 1
    assert [each["transcript"] for each in session.client.of(f"{TRANSCRIPTION}.completed")] == ["fine"]


def test_push_to_talk_is_transcribed() -> None:
    server = Server(SimOptions(vad="level", transcripts=("typed by voice",)))
    session = connect(server, turn_detection=None, transcription=None)
    server.advance(1000)
    session.event(type="input_audio_buffer.commit")
    server.advance(1000)
    assert session.client.of(f"{TRANSCRIPTION}.completed")[0]["transcript"] == "typed by voice"
    assert session.client.of("session.created")[0]["session"]["audio"]["input"]["transcription"] == {"model": "sim"}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("response.create", {}),
        ("conversation.item.create", {"item": {"type": "message", "role": "user", "content": []}}),
        ("conversation.item.truncate", {"item_id": "i", "audio_end_ms": 0}),
    ],
)
def test_what_only_a_conversation_has_is_refused(kind: str, fields: dict[str, Any]) -> None:
    server = Server()
    session = connect(server)
    session.event(type=kind, event_id="mine", **fields)
    error = session.client.of("error")[0]["error"]
    assert (error["code"], error["param"], error["event_id"]) == ("unsupported", "type", "mine")
    assert "transcription session" in error["message"]


def test_an_update_makes_a_session_one_until_anything_was_said() -> None:
    server = Server(SimOptions(vad="level", transcripts=("yes",)))
    session = server.connect("websocket")
    session.event(type="session.update", session={"type": "transcription"})
    assert session.client.of("session.updated")[0]["session"]["type"] == "transcription"
    assert session.actor._core.config.turn_detection == TurnDetection(create_response=False)
    session.event(type="session.update", session={"type": "realtime"})
    session.event(type="session.update", session={"type": "transcription"})
    session.say(900)
    server.advance(2500)
    session.event(type="session.update", session={"type": "realtime"}, event_id="late")
    error = session.client.of("error")[0]["error"]
    assert (error["code"], error["param"], error["event_id"]) == ("cannot_update_type", "session.type", "late")
    session.event(
        type="conversation.item.delete", item_id=session.client.of("conversation.item.added")[0]["item"]["id"]
    )
    session.event(type="session.update", session={"type": "realtime"}, event_id="later")  # what is gone was said
    assert session.client.of("error")[1]["error"]["code"] == "cannot_update_type"
    session.event(type="session.update", session={"audio": {"input": {"turn_detection": None}}})
    assert session.client.of("session.updated")[-1]["session"]["audio"]["input"]["turn_detection"] is None


def test_it_has_no_greeting_and_no_idle_timeout() -> None:
    server = Server()
    wire = {"type": "transcription", "duplex": {"greeting": {"text": "Hello."}}} | {
        "audio": {"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 5000}}}
    }
    session = server.connect("websocket", wire=wire)
    server.advance(30_000)
    assert session.client.types() == ["session.created", "conversation.created"]
