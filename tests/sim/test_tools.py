"""Function calls on simulated time: the wire's order, results, cuts, drafts, bounds, and what the thinker is given."""

import json
from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.config import Settings, ToolSettings
from duplex.payloads import Call, Message
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
WEATHER = {
    "type": "function", "name": "get_weather", "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}  # fmt: skip
TIMER = {"type": "function", "name": "set_timer", "parameters": {"type": "object", "properties": {}}}
TOOLS = {"type": "realtime", "tools": [WEATHER, TIMER]}
PARIS = 'call get_weather {"city": "Paris"}'
SAY_PARIS = 'say and call get_weather {"city": "Paris"}'
CALL = [
    "response.output_item.added", "conversation.item.added", "response.function_call_arguments.delta",
    "response.function_call_arguments.done", "response.output_item.done", "conversation.item.done",
]  # fmt: skip


def connect(server: Server, transport: Any = "websocket", **session: Any) -> Session:
    connected = server.connect(transport, wire=TOOLS | session)
    connected.mute()
    return connected


def since(session: Session, kind: str, *, without: tuple[str, ...] = ()) -> list[str]:
    """Return the types of events from the first of a kind on, each run of equal ones as one."""
    types = session.client.types()
    types = [t for t in types[types.index(kind) :] if t not in without]
    return [t for i, t in enumerate(types) if i == 0 or t != types[i - 1]]


def done(session: Session) -> dict[str, Any]:
    response: dict[str, Any] = session.client.of("response.done")[-1]["response"]
    return response


def give(session: Session, output: str, call_id: str | None = None, **more: Any) -> None:
    """Tell what the newest call gave."""
    call_id = call_id or session.client.of("response.function_call_arguments.done")[-1]["call_id"]
    item = {"type": "function_call_output", "call_id": call_id, "output": output}
    session.event(type="conversation.item.create", item=item, **more)


def messages(server: Server) -> tuple[Message, ...]:
    said: tuple[Message, ...] = server.stage("think").prompts[-1].messages
    return said


def errors(session: Session) -> list[tuple[str, str | None, str | None]]:
    return [(e["error"]["code"], e["error"]["param"], e["error"]["event_id"]) for e in session.client.of("error")]


# The order of events. ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["websocket", "webrtc"])
def test_a_reply_that_only_calls_has_one_item_and_ends_completed(transport: str) -> None:
    server = Server()
    session = connect(server, transport)
    session.type_text(PARIS)
    server.advance(500)
    assert since(session, "response.created") == ["response.created", "rate_limits.updated", *CALL, "response.done"]
    (item,) = done(session)["output"]
    assert (item["type"], item["status"], item["name"]) == ("function_call", "completed", "get_weather")
    assert json.loads(item["arguments"]) == {"city": "Paris"}
    assert done(session)["status"] == "completed"
    (arguments,) = session.client.of("response.function_call_arguments.done")
    deltas = session.client.of("response.function_call_arguments.delta")
    assert len(deltas) > 1
    assert "".join(event["delta"] for event in deltas) == arguments["arguments"] == item["arguments"]
    assert {event["call_id"] for event in [*deltas, arguments]} == {item["call_id"]}
    assert {event["output_index"] for event in [*deltas, arguments]} == {0}
    assert server.total("duplex_function_calls_total", outcome="made") == 1
    server.check()


@pytest.mark.parametrize("transport", ["websocket", "webrtc"])
def test_the_call_is_given_while_the_text_before_it_is_still_spoken(transport: str) -> None:
    server = Server()
    session = connect(server, transport, duplex={"lead_ms": 500})
    session.type_text(SAY_PARIS)
    server.advance(8000)
    said, called = done(session)["output"]
    assert (said["type"], called["type"]) == ("message", "function_call")
    assert said["content"][0]["transcript"] == server.options.script[0]
    (arguments,) = session.client.of("response.function_call_arguments.done")
    assert arguments["output_index"] == 1
    texts = [when for when, e in session.client.events if e["type"] == "response.output_audio_transcript.delta"]
    assert session.client.at("response.function_call_arguments.done") < texts[-1]
    assert (
        session.client.at("response.function_call_arguments.done") < session.client.at("response.done") - 1_000_000_000
    )
    server.check()


def test_several_calls_have_items_of_their_own() -> None:
    server = Server()
    session = connect(server)
    session.type_text(f"{PARIS} call set_timer {{}}")
    server.advance(500)
    assert since(session, "response.created")[2:] == [*CALL, *CALL, "response.done"]
    assert [item["name"] for item in done(session)["output"]] == ["get_weather", "set_timer"]
    assert len({item["call_id"] for item in done(session)["output"]}) == 2


def test_without_parallel_calls_a_reply_has_one() -> None:
    server = Server()
    session = connect(server, parallel_tool_calls=False)
    session.type_text(f"{PARIS} call set_timer {{}}")
    server.advance(500)
    assert [item["name"] for item in done(session)["output"]] == ["get_weather"]
    assert not server.stage("think").prompts[-1].toolset.parallel


# What may be called. -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "text", "called"),
    [
        ("none", PARIS, []),
        ("auto", "hello", []),
        ("auto", "call unknown {}", []),
        ("required", "hello", ["get_weather"]),
        ({"type": "function", "name": "set_timer"}, "hello", ["set_timer"]),
        ({"type": "function", "name": "set_timer"}, PARIS, ["set_timer"]),
    ],
)
def test_the_choice_says_what_may_and_what_has_to_be_called(choice: Any, text: str, called: list[str]) -> None:
    server = Server()
    session = connect(server, tool_choice=choice)
    session.type_text(text)
    server.advance(8000)
    assert [item["name"] for item in done(session)["output"] if item["type"] == "function_call"] == called


def test_a_response_has_tools_and_a_choice_of_its_own() -> None:
    server = Server()
    session = connect(server, tools=[WEATHER])
    response = {"tools": [TIMER], "tool_choice": "required", "parallel_tool_calls": False}
    content = [{"type": "input_text", "text": "hello"}]
    session.event(type="conversation.item.create", item={"type": "message", "role": "user", "content": content})
    session.event(type="response.create", response=response)
    server.advance(500)
    assert [item["name"] for item in done(session)["output"]] == ["set_timer"]
    give(session, "set")
    session.event(type="response.create")
    server.advance(500)
    toolset = server.stage("think").prompts[-1].toolset
    assert ([tool.name for tool in toolset.tools], toolset.choice) == (["get_weather"], "auto")


def test_a_greeting_calls_nothing() -> None:
    server = Server()
    greeting = {"greeting": {"instructions": PARIS}}
    session = connect(server, tool_choice="required", duplex=greeting)
    server.advance(8000)
    assert [item["type"] for item in done(session)["output"]] == ["message"]


# Results. ------------------------------------------------------------------------------------------------------------


def test_the_result_is_an_item_and_the_next_reply_knows_it() -> None:
    server = Server()
    session = connect(server)
    session.type_text(PARIS)
    server.advance(500)
    call = done(session)["output"][0]
    give(session, "18 degrees")
    added = session.client.of("conversation.item.added")[-1]
    assert added["previous_item_id"] == call["id"]
    assert (added["item"]["type"], added["item"]["output"], added["item"]["status"]) == (
        "function_call_output", "18 degrees", "completed",
    )  # fmt: skip
    session.event(type="response.create")
    server.advance(8000)
    assert messages(server) == (
        Message(role="user", text=PARIS),
        Message(
            role="assistant", text="",
            calls=(Call(id=call["call_id"], name="get_weather", arguments='{"city": "Paris"}'),),
        ),
        Message(role="tool", text="18 degrees", call_id=call["call_id"]),
    )  # fmt: skip
    assert done(session)["output"][0]["content"][0]["transcript"] == "The function gave 18 degrees."
    server.check()


def test_a_response_that_is_asked_for_while_the_call_is_still_being_said_begins_behind_it() -> None:
    server = Server()
    session = connect(server, "webrtc")
    session.type_text(SAY_PARIS)
    server.advance(1000)
    give(session, "18 degrees")
    session.event(type="response.create", response={"metadata": {"for": "result"}})
    assert not session.client.of("response.done")
    server.advance(12_000)
    assert errors(session) == []
    first, second = (event["response"] for event in session.client.of("response.done"))
    assert (first["status"], second["status"], second["metadata"]) == ("completed", "completed", {"for": "result"})
    assert "18 degrees" in second["output"][0]["content"][0]["transcript"]
    kinds = session.client.types()
    assert kinds.index("response.done") < [i for i, k in enumerate(kinds) if k == "response.created"][1]
    server.check()


def test_a_second_response_behind_a_call_is_refused() -> None:
    server = Server()
    session = connect(server, "webrtc")
    session.type_text(SAY_PARIS)
    server.advance(1000)
    session.event(type="response.create")
    session.event(type="response.create", event_id="again")
    assert errors(session) == [("conversation_already_has_active_response", None, "again")]


@pytest.mark.parametrize("way", ["cancel", "voice"])
def test_a_response_that_waits_behind_a_call_ends_with_it_and_its_client_is_told(way: str) -> None:
    server = Server()
    session = server.connect("webrtc", wire=TOOLS)
    session.type_text(SAY_PARIS)
    server.advance(1000)
    session.event(type="response.create", event_id="after")
    if way == "cancel":
        session.event(type="response.cancel")
    else:
        session.say(900)
    server.advance(1500)
    assert done(session)["status"] == "cancelled"
    assert errors(session) == [("conversation_already_has_active_response", None, "after")]
    assert done(session)["output"][1]["status"] == "completed", "a cut never voids a call that was given"
    server.check()


def test_a_late_result_never_lands_in_the_reply_that_is_being_made() -> None:
    server = Server(SimOptions(vad="level", token_s=0.2))
    session = connect(server)
    session.type_text(PARIS)
    server.advance(2000)
    session.type_text("and what is new?")
    server.advance(600)
    running = session.client.of("response.created")[-1]["response"]["id"]
    give(session, "18 degrees")
    for event_id in ("behind", "too many"):
        session.event(type="response.create", event_id=event_id)
    server.advance(18_000)
    assert errors(session) == [("conversation_already_has_active_response", None, "too many")]
    first, second = (event["response"] for event in session.client.of("response.done")[1:])
    assert first["id"] == running
    assert "18" not in first["output"][0]["content"][0]["transcript"]
    assert "18" in second["output"][0]["content"][0]["transcript"]
    pending, late = messages(server)[2], messages(server)[-1]
    assert pending.text == "(The result is not there yet.)"
    assert (late.role, late.text) == ("tool", "18 degrees")
    assert messages(server)[-2].calls == messages(server)[1].calls
    server.check()


def test_while_a_call_runs_the_thinker_is_told_so() -> None:
    server = Server()
    session = connect(server)
    session.type_text(PARIS)
    server.advance(500)
    session.type_text("how long will it take?")
    server.advance(500)
    assert [(m.role, m.text) for m in messages(server)[2:]] == [
        ("tool", "(The result is not there yet.)"), ("user", "how long will it take?"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("item", "code", "param"),
    [
        ({"type": "function_call_output", "call_id": "nope", "output": ""}, "invalid_tool_call_id", "item.call_id"),
        ({"type": "function_call_output", "output": ""}, "missing_required_parameter", "item.call_id"),
        ({"type": "function_call_output", "call_id": "c"}, "missing_required_parameter", "item.output"),
        ({"type": "function_call_output", "call_id": "c", "output": "x" * 101}, "string_above_max_length", "item.output"),
        ({"type": "function_call", "name": "f"}, "missing_required_parameter", "item.arguments"),
        ({"type": "function_call", "arguments": "{}"}, "missing_required_parameter", "item.name"),
        ({"type": "function_call", "name": "f", "arguments": "[]"}, "invalid_value", "item.arguments"),
        ({"type": "function_call", "name": "f g", "arguments": "{}"}, "invalid_value", "item.name"),
        ({"type": "function_call", "name": "f", "arguments": '{"a": "' + "x" * 60 + '"}'}, "string_above_max_length", "item.arguments"),
        ({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "taken"}, "call_id_taken", "item.call_id"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_item_is_said_and_changes_nothing(item: dict[str, Any], code: str, param: str) -> None:
    server = Server(settings=Settings(tools=ToolSettings(output_chars_max=100, arguments_chars_max=50)))
    session = connect(server)
    taken = {"type": "function_call", "name": "f", "arguments": "", "call_id": "taken"}
    session.event(type="conversation.item.create", item=taken)
    session.event(type="conversation.item.create", item=item, event_id="mine")
    assert errors(session) == [(code, param, "mine")]
    assert len(session.client.of("conversation.item.added")) == 1


def test_a_clients_call_and_its_result_are_created_inserted_retrieved_and_deleted() -> None:
    server = Server()
    session = connect(server)
    call = {"type": "function_call", "id": "c1", "call_id": "x", "name": "old", "arguments": '{"a":1}'}
    output = {"type": "function_call_output", "id": "o1", "call_id": "x", "output": "one"}
    session.event(type="conversation.item.create", item=call)
    session.event(type="conversation.item.create", item=output, previous_item_id="c1")
    session.event(type="conversation.item.create", item=output | {"id": "c1"}, event_id="twice")
    for item_id in ("c1", "o1"):
        session.event(type="conversation.item.retrieve", item_id=item_id)
    shown = [event["item"] for event in session.client.of("conversation.item.retrieved")]
    more = {"object": "realtime.item", "status": "completed"}
    assert shown == [call | more, output | more]
    assert errors(session) == [("item_create_duplicate_item_id", "item.id", "twice")]
    session.type_text("hello")
    server.advance(300)
    assert [m.role for m in messages(server)] == ["assistant", "tool", "user"]
    session.event(type="response.cancel")
    session.event(type="conversation.item.delete", item_id="c1")
    server.advance(300)
    session.type_text("again")
    server.advance(300)
    assert messages(server)[0] == Message(role="user", text="A function gave this result: one hello again")


# Cuts. ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["cancel", "voice"])
def test_a_cut_reaches_a_call_that_is_being_made(way: str) -> None:
    server = Server(SimOptions(vad="level", token_s=0.9))
    session = server.connect("webrtc", wire=TOOLS)
    session.type_text(PARIS)
    server.advance(1000)
    assert session.client.of("response.function_call_arguments.delta")
    if way == "cancel":
        session.event(type="response.cancel")
    else:
        session.say(900)
    server.advance(700)
    assert server.stage("think").running <= (way == "voice"), "the call's generation is stopped"
    assert not session.client.of("response.function_call_arguments.done")
    (item,) = done(session)["output"]
    assert (done(session)["status"], item["status"]) == ("cancelled", "incomplete")
    assert [e["item"]["status"] for e in session.client.of("response.output_item.done")] == ["incomplete"]
    assert server.total("duplex_function_calls_total", outcome="cut") == 1
    give(session, "too late", item["call_id"], event_id="late")
    assert errors(session) == [("invalid_tool_call_id", "item.call_id", "late")]
    session.mute()
    server.advance(8000)
    assert item["call_id"] not in {e["call_id"] for e in session.client.of("response.function_call_arguments.done")}
    session.type_text("hello")
    server.advance(1500)
    called = {call.id for message in messages(server) for call in message.calls}
    assert item["call_id"] not in called, "what was cut was never called"
    server.check()


def test_a_call_that_was_given_survives_the_cut_of_its_reply() -> None:
    server = Server()
    session = server.connect("webrtc", wire=TOOLS)
    session.type_text(SAY_PARIS)
    server.advance(1500)
    session.event(type="response.cancel")
    server.advance(200)
    said, called = done(session)["output"]
    assert (done(session)["status"], said["status"], called["status"]) == ("cancelled", "incomplete", "completed")
    give(session, "18 degrees")
    session.event(type="response.create")
    server.advance(500)
    assert [m.role for m in messages(server)] == ["user", "assistant", "tool"]
    assert messages(server)[1].text and messages(server)[1].text in server.options.script[0]
    server.check()


# Drafts. -------------------------------------------------------------------------------------------------------------


def test_a_draft_that_calls_is_told_of_only_when_it_is_adopted() -> None:
    server = Server(SimOptions(vad="level", transcripts=(SAY_PARIS,)))
    session = server.connect("websocket", wire=TOOLS)
    server.advance(300)
    session.say(1000)
    server.advance(8000)
    assert server.total("duplex_speculation_total", outcome="adopted") == 1
    assert len(server.stage("think").prompts) == 1
    kinds = session.client.types()
    assert kinds.index("input_audio_buffer.committed") < kinds.index("response.created")
    assert kinds.index("response.created") < kinds.index("response.function_call_arguments.delta")
    said, called = done(session)["output"]
    added = {e["item"]["id"]: e["previous_item_id"] for e in session.client.of("conversation.item.added")}
    assert (added[called["id"]], added[said["id"]]) == (
        said["id"], session.client.of("input_audio_buffer.committed")[0]["item_id"],
    )  # fmt: skip
    give(session, "18 degrees")
    session.event(type="response.create")
    server.advance(500)
    assert [m.role for m in messages(server)] == ["user", "assistant", "tool"]
    server.check()


def test_a_draft_that_calls_and_is_thrown_away_leaves_nothing() -> None:
    server = Server(SimOptions(vad="level", transcripts=(PARIS, "hello"), end_probability=0.1))
    session = server.connect("websocket", wire=TOOLS)
    server.advance(300)
    session.say(1000)
    server.advance(1300)
    session.say(1000)
    server.advance(9000)
    assert server.total("duplex_speculation_total", outcome="resumed") == 1
    assert not session.client.of("response.function_call_arguments.delta")
    assert not any(message.calls for message in messages(server))
    server.check()


def test_a_change_of_tools_throws_a_draft_away() -> None:
    server = Server(SimOptions(vad="level", transcripts=("hello",), end_probability=0.1))
    session = server.connect("websocket", wire=TOOLS)
    server.advance(300)
    session.say(1000)
    server.advance(1250)
    session.event(type="session.update", session={"type": "realtime", "tools": []})
    server.advance(6000)
    assert server.total("duplex_speculation_total", outcome="differed") == 1
    assert server.stage("think").prompts[-1].toolset.tools == ()


# Bounds, and what a model does wrong. --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "text", "statuses"),
    [
        (ToolSettings(arguments_chars_max=12), PARIS, ["incomplete"]),
        (ToolSettings(calls_max=1), f"{PARIS} call set_timer {{}}", ["completed"]),
    ],
)
def test_a_reply_over_a_bound_ends_incomplete(bounds: ToolSettings, text: str, statuses: list[str]) -> None:
    server = Server(settings=Settings(tools=bounds))
    session = connect(server)
    session.type_text(text)
    server.advance(500)
    assert [item["status"] for item in done(session)["output"]] == statuses
    assert (done(session)["status"], done(session)["status_details"]["reason"]) == ("incomplete", "max_output_tokens")
    assert len(session.client.of("response.function_call_arguments.done")) == statuses.count("completed")
    assert server.stage("think").running == 0


def test_arguments_that_are_no_json_are_given_to_nobody() -> None:
    server = Server()
    session = connect(server)
    session.type_text("call get_weather {Paris}")
    server.advance(500)
    assert not session.client.of("response.function_call_arguments.done")
    assert (done(session)["status"], done(session)["output"][0]["status"]) == ("failed", "incomplete")
    assert "Paris" not in json.dumps(session.client.of("error"))
    server.check()


def test_an_update_of_tools_is_shown_and_a_wrong_one_changes_nothing() -> None:
    server = Server(settings=Settings(tools=ToolSettings(tools_max=2, schema_chars_max=400)))
    session = connect(server)
    shown = session.client.of("session.created")[0]["session"]
    assert shown["tools"] == [WEATHER, TIMER | {"description": ""}]
    assert (shown["tool_choice"], shown["parallel_tool_calls"]) == ("auto", True)
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"tools": [WEATHER] * 3}, "string_above_max_length", "session.tools"),
        ({"tools": [WEATHER, WEATHER]}, "invalid_value", "session.tools.1.name"),
        ({"tools": [WEATHER | {"description": "x" * 400}]}, "string_above_max_length", "session.tools"),
        ({"tools": [{"type": "mcp", "server_label": "s"}]}, "unsupported", "session.tools.0.type"),
        ({"tools": [{"type": "function"}]}, "missing_required_parameter", "session.tools.0.name"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "invalid_value", "session.tools.0.name"),
        ({"tools": [{"type": "function", "name": "a", "parameters": []}]}, "invalid_type", "session.tools.0.parameters"),
        ({"tools": [WEATHER | {"parameters": {"type": "string"}}]}, "invalid_value", "session.tools.0.parameters.type"),
        ({"tools": [7]}, "invalid_type", "session.tools.0"),
        ({"tool_choice": {"type": "function", "name": "x"}}, "invalid_value", "session.tool_choice.name"),
        ({"tool_choice": "always"}, "invalid_value", "session.tool_choice"),
    ]  # fmt: skip
    for i, (update, _, _) in enumerate(wrong):
        session.event(type="session.update", session={"type": "realtime"} | update, event_id=str(i))
    assert errors(session) == [(code, param, str(i)) for i, (_, code, param) in enumerate(wrong)]
    named = {"type": "function", "name": "set_timer"}
    session.event(type="session.update", session={"type": "realtime", "tool_choice": named})
    session.event(type="session.update", session={"type": "realtime", "tools": [WEATHER]})
    first, second = (event["session"] for event in session.client.of("session.updated"))
    assert (first["tool_choice"], second["tool_choice"], len(second["tools"])) == (named, "auto", 1)
