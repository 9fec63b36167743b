"""What a locked session leaves to its client (C71)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duplex.protocol import Decoded, SessionRejected, WireEncoder, WireProfile, decode, initial
from duplex.protocol.lock import without_hidden
from duplex.session.config import SessionConfig
from duplex.session.events import SessionCreated, SessionUpdated
from duplex.session.messages import Configure, CreateItem, CreateReply, DeleteItem, Rejected
from duplex.units import Samples

pytestmark = pytest.mark.unit

PROFILE = WireProfile(model="sim", voices=("low", "high"))
SECRET = "Never tell the discount."
BOUND: dict[str, Any] = {"type": "realtime", "instructions": SECRET, "audio": {"output": {"voice": "high"}}}


def locked(session: dict[str, Any] | None = None, bound: dict[str, Any] = BOUND) -> SessionConfig:
    return initial(PROFILE, session_id="sess_1", session=session, locked=bound)


def send(kind: str, config: SessionConfig | None = None, **fields: Any) -> Decoded:
    text = json.dumps({"type": kind, "event_id": "e1", **fields})
    return decode(text, config or locked(), transport="webrtc", profile=PROFILE, arrived=Samples(0))


def item(role: str, kind: str = "message") -> dict[str, Any]:
    content = [{"type": "output_text" if role == "assistant" else "input_text", "text": "Hello"}]
    return {"type": kind, "role": role, "content": content}


FORBIDDEN: list[tuple[str, dict[str, Any], str]] = [
    ("session.update", {"session": {"instructions": "Mine."}}, "session.instructions"),
    ("session.update", {"session": {"instructions": SECRET}}, "session.instructions"),
    ("session.update", {"session": {"instructions": None}}, "session.instructions"),
    ("session.update", {"session": {"tools": [{"type": "function", "name": "f"}]}}, "session.tools"),
    ("session.update", {"session": {"prompt": {"id": "p"}}}, "session.prompt"),
    ("session.update", {"session": {"max_output_tokens": 7}}, "session.max_output_tokens"),
    ("session.update", {"session": {"audio": {"output": {"voice": "low"}}}}, "session.audio.output.voice"),
    ("response.create", {"response": {"instructions": "Mine."}}, "response.instructions"),
    ("response.create", {"response": {"tools": []}}, "response.tools"),
    ("response.create", {"response": {"tool_choice": "none"}}, "response.tool_choice"),
    ("response.create", {"response": {"input": []}}, "response.input"),
    ("response.create", {"response": {"prompt": {"id": "p"}}}, "response.prompt"),
    ("response.create", {"response": {"max_output_tokens": 4096}}, "response.max_output_tokens"),
    ("response.create", {"response": {"audio": {"output": {"voice": "low"}}}}, "response.audio.output.voice"),
    ("response.create", {"response": {"conversation": "none", "input": []}}, "response.input"),
    ("conversation.item.create", {"item": item("system")}, "item.role"),
    ("conversation.item.create", {"item": item("assistant")}, "item.role"),
    (
        "conversation.item.create",
        {"item": {"type": "function_call_output", "call_id": "c", "output": "1"}},
        "item.type",
    ),
    ("conversation.item.create", {"item": {"type": "function_call", "name": "f"}}, "item.type"),
]


@pytest.mark.parametrize(("kind", "fields", "param"), FORBIDDEN)
def test_what_the_client_may_not_set_is_refused_by_name(kind: str, fields: dict[str, Any], param: str) -> None:
    """C71."""
    refusal = send(kind, **fields)
    assert isinstance(refusal, Rejected)
    assert (refusal.code, refusal.param, refusal.event_id) == ("forbidden_field", param, "e1")
    assert SECRET not in refusal.message


@pytest.mark.parametrize(("kind", "fields", "param"), FORBIDDEN)
def test_without_a_lock_nothing_is_forbidden(kind: str, fields: dict[str, Any], param: str) -> None:
    answer = send(kind, initial(PROFILE, session_id="sess_1", session=BOUND), **fields)
    assert not (isinstance(answer, Rejected) and answer.code == "forbidden_field")


def test_how_to_listen_and_sound_stays_open() -> None:
    audio = {"input": {"turn_detection": None, "transcription": None}, "output": {"speed": 1.25}}
    sent = {"type": "realtime", "model": "gpt-realtime", "tools": [], "tool_choice": "auto", "audio": audio}
    updated = send("session.update", session=sent | {"output_modalities": ["text"], "duplex": {"lead_ms": 100}})
    assert isinstance(updated, Configure)
    config = updated.config
    assert (config.turn_detection, config.transcribe, config.speed, config.lead_ms) == (None, False, 1.25, 100)
    assert (config.instructions, config.voice, config.modalities) == (SECRET, "high", ("text",))
    refusal = send("session.update", config, session={"instructions": "Mine."})
    assert isinstance(refusal, Rejected), "the lock holds after an update"


def test_the_users_own_words_and_plain_responses_stay_open() -> None:
    assert isinstance(send("conversation.item.create", item=item("user")), CreateItem)
    assert isinstance(send("conversation.item.delete", item_id="i"), DeleteItem)
    assert isinstance(send("response.create"), CreateReply)
    asked = {"metadata": {"k": "v"}, "output_modalities": ["text"], "conversation": "auto", "newer": 1}
    assert isinstance(send("response.create", response=asked), CreateReply)


def test_what_the_lock_itself_says_is_closed() -> None:
    bound = {"output_modalities": ["audio"], "audio": {"input": {"turn_detection": {"type": "server_vad"}}}}
    config = locked(bound=bound)
    for session, param in (
        ({"output_modalities": ["text"]}, "session.output_modalities"),
        ({"audio": {"input": {"turn_detection": None}}}, "session.audio.input.turn_detection"),
        (
            {"audio": {"input": {"turn_detection": {"silence_duration_ms": 1}}}},
            "session.audio.input.turn_detection.silence_duration_ms",
        ),
    ):
        refusal = send("session.update", config, session=session)
        assert isinstance(refusal, Rejected)
        assert refusal.param == param
    refusal = send("response.create", config, response={"output_modalities": ["text"]})
    assert isinstance(refusal, Rejected)
    assert refusal.param == "response.output_modalities"
    assert isinstance(send("response.create", config, response={"output_modalities": ["audio"]}), CreateReply)


def test_an_opening_is_an_update_too() -> None:
    assert locked({"audio": {"output": {"speed": 1.5}}}).speed == 1.5
    with pytest.raises(SessionRejected) as refused:
        locked({"instructions": "Mine."})
    assert (refused.value.code, refused.value.param) == ("forbidden_field", "session.instructions")
    with pytest.raises(SessionRejected):
        initial(PROFILE, session_id="sess_1", locked={"audio": {"output": {"speed": 9}}})


@pytest.mark.parametrize("event", [SessionCreated, SessionUpdated])
def test_instructions_are_not_shown(event: Any) -> None:
    encoder = WireEncoder(session_id="s", conversation_id="c", transport="webrtc", ring_events_max=10)
    told = encoder.encode(event(config=locked()))
    assert SECRET not in json.dumps(told)
    assert "instructions" not in told[0]["session"]
    assert told[0]["session"]["audio"]["output"]["voice"] == "high"
    open_ = encoder.encode(event(config=initial(PROFILE, session_id="s", session=BOUND)))
    assert open_[0]["session"]["instructions"] == SECRET
    assert "instructions" not in without_hidden(BOUND)
