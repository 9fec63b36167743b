"""Function calls of responses beside the conversation, and calls in a response's own input."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.payloads import Call, Message
from tests.sim.test_out_of_band import aside, done, last_error, types_of, user
from tests.sim.test_tools import PARIS, connect, give
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
CALLED = {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": '{"city": "Paris"}'}
GAVE = {"type": "function_call_output", "call_id": "c", "output": "18 degrees"}


def call_beside(server: Server, **more: Any) -> tuple[Session, str]:
    """Return a session that has asked for a call beside the conversation, and the response's id."""
    session = connect(server)
    aside(session, input=[user(PARIS)], **more)
    server.advance(20)
    return session, session.client.of("response.created")[0]["response"]["id"]


def test_a_call_beside_the_conversation_enters_it_nowhere() -> None:
    server = Server()
    session, reply = call_beside(server, instructions="")
    server.advance(1000)
    assert [t for t in types_of(session, reply) if t != "response.function_call_arguments.delta"] == [
        "response.created", "response.output_item.added", "response.function_call_arguments.done",
        "response.output_item.done", "response.done",
    ]  # fmt: skip
    assert not [t for t in session.client.types() if t.startswith("conversation.item")]
    (call,) = done(session)[reply]["output"]
    assert (call["type"], call["status"], call["arguments"]) == ("function_call", "completed", '{"city": "Paris"}')
    give(session, "18 degrees", event_id="late")
    assert last_error(session) == ("invalid_tool_call_id", "item.call_id", "late")
    server.check()


def test_what_a_call_gave_is_told_in_the_input_of_another_response() -> None:
    server = Server()
    session, reply = call_beside(server, instructions="")
    server.advance(1000)
    (call,) = done(session)[reply]["output"]
    aside(session, input=[user(PARIS), call, GAVE | {"call_id": call["call_id"]}], instructions="")
    server.advance(2000)
    asked = Call(id=call["call_id"], name="get_weather", arguments='{"city": "Paris"}')
    assert server.stage("think").prompts[-1].messages == (
        Message(role="user", text=PARIS),
        Message(role="assistant", text="", calls=(asked,)),
        Message(role="tool", text="18 degrees", call_id=call["call_id"]),
    )
    answer = list(done(session).values())[-1]
    assert answer["output"][0]["content"][0]["text"] == "The function gave 18 degrees."


def test_a_call_of_the_conversation_is_referred_to_in_the_input() -> None:
    server = Server()
    session = connect(server)
    session.event(type="conversation.item.create", item=CALLED | {"id": "called"})
    aside(session, input=[{"type": "item_reference", "id": "called"}, GAVE])
    server.advance(1000)
    assert [message.role for message in server.stage("think").prompts[-1].messages] == ["system", "assistant", "tool"]


@pytest.mark.parametrize(
    ("items", "code", "param"),
    [
        ([GAVE, CALLED], "invalid_tool_call_id", "response.input.0.call_id"),
        ([CALLED | {"call_id": "other"}, GAVE], "invalid_tool_call_id", "response.input.1.call_id"),
        ([CALLED | {"arguments": "[]"}], "invalid_value", "response.input.0.arguments"),
        ([CALLED, {"type": "function_call_output", "output": ""}], "missing_required_parameter", "response.input.1.call_id"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("conversation", ["none", "auto"])
def test_a_wrong_call_in_the_input_is_one_error(items: list[Any], code: str, param: str, conversation: str) -> None:
    session = connect(Server())
    aside(session, "mine", input=items, conversation=conversation)
    assert last_error(session) == (code, param, "mine")
    assert not session.client.of("response.created")


@pytest.mark.parametrize("end", ["cancelled", "incomplete"])
def test_a_call_beside_that_is_cut_off_is_given_to_nobody(end: str) -> None:
    server = Server(SimOptions(token_s=0.05))
    session, reply = call_beside(server, **({"max_output_tokens": 1} if end == "incomplete" else {}))
    while not session.client.of("response.function_call_arguments.delta"):
        server.advance(10)
    if end == "cancelled":
        session.event(type="response.cancel", response_id=reply)
    server.advance(500)
    assert "response.function_call_arguments.done" not in session.client.types()
    assert (done(session)[reply]["status"], done(session)[reply]["output"][0]["status"]) == (end, "incomplete")
    server.check()
