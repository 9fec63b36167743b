"""What people report of this protocol's servers, beyond the field cases (kind 4) and the reports in test_protocol_cases.

report                                          what goes wrong there
livekit/agents#6391                             items that were deleted come back to the client, and stay with it for good
livekit/agents#5886                             turns without a transcript cannot be deleted: the conversation only grows
livekit/agents#3702                             a result that comes twice, or late, makes the model call again
BerriAI/litellm#15747                           one event is larger than the MiB that the websockets library takes by default
openclaw/openclaw#80808, langwatch/scenario#602 fields of the beta are ignored in silence (`unit/test_protocol_former_shape.py`)
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.protocol import TransportName
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
LONG = " ".join(f"word{i}" for i in range(34))
"""Ten seconds."""
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
PARIS = 'call get_weather {"city": "Paris"}'
WEBSOCKETS_BYTES = 1024 * 1024
"""`max_size` of the websockets library, for who sets none."""


def told_of(session: Session, item_id: str) -> list[str]:
    """Return the types of the conversation's events about an item."""
    events = [event for _, event in session.client.events if event["type"].startswith("conversation.item.")]
    return [event["type"] for event in events if item_id in (event.get("item_id"), event.get("item", {}).get("id"))]


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
@pytest.mark.parametrize("ends", ["by itself", "cut"])
def test_an_item_that_is_deleted_while_it_is_said_does_not_come_back(transport: TransportName, ends: str) -> None:
    server = Server(SimOptions(vad="level", script=(LONG, "Yes.")))
    session = server.connect(transport, wire={"type": "realtime", "duplex": {"lead_ms": 300}})
    session.type_text("go")
    server.advance(800)
    item = session.client.of("response.output_item.added")[0]["item"]["id"]
    session.event(type="conversation.item.delete", item_id=item)
    if ends == "cut":
        session.event(type="response.cancel")
    server.advance(12_000)
    assert told_of(session, item) == ["conversation.item.added", "conversation.item.deleted"]
    (done,) = session.client.of("response.done")
    assert [each["id"] for each in done["response"]["output"]] == [item], "the response is whole all the same"
    session.type_text("and?")
    server.advance(500)
    assert [message.text for message in server.stage("think").prompts[-1].messages] == ["go and?"]
    server.check()


def test_a_call_that_is_deleted_while_it_is_made_does_not_come_back() -> None:
    server = Server(SimOptions(script=("Fine.",), token_s=0.5))
    session = server.connect("websocket", wire={"type": "realtime", "tools": [WEATHER]})
    session.type_text(PARIS)
    while not session.client.of("response.function_call_arguments.delta"):
        server.advance(10)
    item = session.client.of("response.output_item.added")[0]["item"]["id"]
    session.event(type="conversation.item.delete", item_id=item)
    server.advance(8000)
    assert told_of(session, item) == ["conversation.item.added", "conversation.item.deleted"]
    assert len(session.client.of("response.function_call_arguments.done")) == 1, "whoever carries it out is told"
    server.check()


def test_turns_without_a_transcript_can_be_deleted() -> None:
    server = Server(SimOptions(vad="level", script=("Fine.",)))
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"transcription": None}}})
    session.say(900)
    server.advance(4000)
    (committed,) = session.client.of("input_audio_buffer.committed")
    session.event(type="conversation.item.delete", item_id=committed["item_id"])
    session.type_text("and?")
    server.advance(500)
    assert session.client.of("conversation.item.deleted")
    assert [message.text for message in server.stage("think").prompts[-1].messages] == ["Fine.", "and?"]


def test_a_result_that_comes_twice_is_read_behind_its_call_each_time() -> None:
    """Chat servers refuse a result that answers no call, so nothing that a client sends may make such a prompt."""
    server = Server(SimOptions(script=("Fine.",)))
    session = server.connect("websocket", wire={"type": "realtime", "tools": [WEATHER]})
    session.type_text(PARIS)
    server.advance(1500)
    call = session.client.of("response.function_call_arguments.done")[0]["call_id"]
    for result in ("18", "19"):
        session.event(
            type="conversation.item.create", item={"type": "function_call_output", "call_id": call, "output": result}
        )
    session.event(type="response.create")
    server.advance(3000)
    open_calls: list[str] = []
    for message in server.stage("think").prompts[-1].messages:
        if message.role == "tool":
            open_calls.remove(message.call_id or "")
        else:
            assert not open_calls, "each call is followed by its result"
            open_calls = [each.id for each in message.calls]
    assert not open_calls
    assert not session.client.of("error")


def test_the_largest_session_fits_into_what_clients_take() -> None:
    """Instructions and tools at their bounds, in a script whose letters JSON escapes."""
    server = Server()
    bounds = server.settings.tools.schema_chars_max
    tool = WEATHER | {"description": "x" * (bounds - 400)}
    session = server.connect("websocket")
    instructions = "語" * server.settings.conversation.text_chars_max
    session.event(type="session.update", session={"instructions": instructions, "tools": [tool]})
    session.type_text(instructions)
    server.advance(100)
    assert session.client.of("session.updated")
    sizes: list[Any] = [len(json.dumps(event, separators=(",", ":"))) for _, event in session.client.events]
    assert max(sizes) < WEBSOCKETS_BYTES
