"""Responses beside the conversation: their own lane, their own end, and no trace in the history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from duplex_models.sim import SimOptions

from duplex.config import ConversationSettings, Settings
from duplex.payloads import Role
from duplex.replay import replay
from duplex.session.effects import Submit
from tests.sim.recorded import hang_up, recorder, under_record
from tests.sim.watched import WatchedServer
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
LONG = " ".join(f"word{i}" for i in range(40))
TEXT = ["text"]


def serve(*script: str, settings: Settings | None = None, **options: Any) -> Server:
    chosen = {"vad": "level", "script": script or ("One two three.",), "first_token_s": 0.05, "token_s": 0.02} | options
    return Server(SimOptions(**chosen), settings)


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def aside(session: Session, event_id: str = "aside", **response: Any) -> None:
    """Ask for an out-of-band response that is text, of nothing but its instructions, unless said otherwise."""
    asked = {"output_modalities": TEXT, "input": [], "instructions": "Classify."} | response
    session.event(type="response.create", event_id=event_id, response={"conversation": "none"} | asked)


def created(session: Session) -> list[str]:
    return [event["response"]["id"] for event in session.client.of("response.created")]


def done(session: Session) -> dict[str, dict[str, Any]]:
    return {event["response"]["id"]: event["response"] for event in session.client.of("response.done")}


def ended(session: Session) -> dict[str, str]:
    """Return how each response ended, in the order in which they did."""
    return {name: response["status"] for name, response in done(session).items()}


def types_of(session: Session, reply: str) -> list[str]:
    """Return the types of a response's own events."""
    return [
        event["type"] for _, event in session.client.events
        if event.get("response_id") == reply or event.get("response", {}).get("id") == reply
    ]  # fmt: skip


def last_error(session: Session) -> tuple[str, str | None, str | None]:
    error = session.client.of("error")[-1]["error"]
    return error["code"], error["param"], error["event_id"]


def said(server: Server, nth: int = -1) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in server.stage("think").prompts[nth].messages]


# One of them. -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
def test_a_text_response_out_of_band_in_the_wires_order(transport: Any) -> None:
    server = serve("Yes, it is.")
    session = server.connect(transport)
    aside(session, metadata={"topic": "mood"}, max_output_tokens=20)
    server.advance(1000)
    assert session.client.types()[2:] == [
        "response.created", "rate_limits.updated", "response.output_item.added", "response.content_part.added",
        "response.output_text.delta", "response.output_text.delta", "response.output_text.delta",
        "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.done",
    ]  # fmt: skip
    first, last = (
        session.client.of("response.created")[0]["response"],
        session.client.of("response.done")[0]["response"],
    )
    for response in (first, last):
        assert response["conversation_id"] is None
        assert (response["metadata"], response["output_modalities"]) == ({"topic": "mood"}, TEXT)
        assert response["max_output_tokens"] == 20
    assert last["status"] == "completed"
    assert last["output"][0]["content"] == [{"type": "output_text", "text": "Yes, it is."}]
    assert said(server) == [("system", "Classify.")]
    session.event(type="conversation.item.retrieve", item_id=last["output"][0]["id"])
    assert last_error(session)[0] == "item_not_found"
    server.check()


def test_audio_out_of_band_leaves_as_deltas_beside_the_conversations() -> None:
    server = serve("one two three four five six.", "seven eight.")
    session = server.connect("websocket")
    session.type_text("go")
    aside(session, output_modalities=["audio"])
    server.advance(8000)
    talk, beside = created(session)
    assert ended(session) == {beside: "completed", talk: "completed"}
    audio = {reply: [e for e in session.client.of("response.output_audio.delta") if e["response_id"] == reply]
             for reply in (talk, beside)}  # fmt: skip
    seconds = {reply: sum(len(event["delta"]) for event in deltas) * 3 / 4 / 48_000 for reply, deltas in audio.items()}
    assert seconds[talk] == pytest.approx(6 * 0.3, abs=0.02)
    assert seconds[beside] == pytest.approx(2 * 0.3, abs=0.02)
    assert {event["item_id"] for event in audio[beside]} == {done(session)[beside]["output"][0]["id"]}
    assert types_of(session, beside)[-1] == "response.done"
    assert len(session.actor._beside) == 0
    assert len(session.actor._core.conversation) == 2
    server.check()


def test_on_a_call_it_is_text_and_audio_is_refused_with_a_reason() -> None:
    server = serve()
    session = server.connect("webrtc")
    session.event(type="response.create", event_id="a", response={"conversation": "none", "input": []})
    assert last_error(session) == ("unsupported_on_transport", "response.output_modalities", "a")
    assert "one voice" in session.client.of("error")[0]["error"]["message"]
    assert created(session) == []


def test_without_input_it_is_made_from_the_conversation_and_not_added_to_it() -> None:
    server = serve("Fine.", "A greeting.", "Still fine.")
    session = server.connect("websocket")
    session.type_text("How are you?")
    server.advance(3000)
    session.event(
        type="response.create", response={"conversation": "none", "instructions": "Sum up.", "output_modalities": TEXT}
    )
    server.advance(1000)
    assert said(server) == [("system", "Sum up."), ("user", "How are you?"), ("assistant", "Fine.")]
    session.event(type="response.create")
    server.advance(3000)
    assert said(server) == [("user", "How are you?"), ("assistant", "Fine.")]


def test_its_own_input_is_inline_items_and_references_in_order() -> None:
    server = serve("Fine.", "positive")
    session = server.connect("websocket")
    session.event(type="conversation.item.create", item={"id": "mine", **user("It is great.")})
    server.advance(100)
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "negative"}]}
    aside(session, input=[user("It is bad."), answer, {"type": "item_reference", "id": "mine"}])
    session.event(type="conversation.item.delete", item_id="mine")
    server.advance(1000)
    assert said(server) == [
        ("system", "Classify."), ("user", "It is bad."), ("assistant", "negative"), ("user", "It is great."),
    ]  # fmt: skip
    assert list(ended(session).values()) == ["completed"]


def test_it_waits_for_the_words_of_a_turn_that_it_refers_to() -> None:
    server = serve("Hello.", transcribe_s=0.6, transcripts=("the users words",), end_probability=0.9)
    detection = {"type": "server_vad", "silence_duration_ms": 200, "create_response": False}
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})
    session.say(800)
    while not session.client.of("input_audio_buffer.committed"):
        server.advance(20)
    turn = session.client.of("input_audio_buffer.committed")[0]["item_id"]
    aside(session, input=[{"type": "item_reference", "id": turn}])
    aside(session, input=[{"type": "item_reference", "id": turn}])
    assert len(created(session)) == 2 and not server.stage("think").prompts
    session.event(type="response.cancel", response_id=created(session)[1])
    assert ended(session) == {created(session)[1]: "cancelled"}
    server.advance(2000)
    assert said(server) == [("system", "Classify."), ("user", "the users words")]
    assert list(ended(session).values()) == ["cancelled", "completed"]
    assert len(server.stage("think").prompts) == 1
    server.check()


# What is refused. ---------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "a reference to nothing": (
        {"input": [user("x"), {"type": "item_reference", "id": "none"}]}, ("item_not_found", "response.input.1.id"),
    ),
    "a reference without an id": (
        {"input": [{"type": "item_reference"}]}, ("missing_required_parameter", "response.input.0.id"),
    ),
    "an item without content": (
        {"input": [{"type": "message", "role": "user"}]}, ("missing_required_parameter", "response.input.0.content"),
    ),
    "too many items": ({"input": [user("x")] * 4}, ("too_many_items", "response.input")),
    "too much text": ({"input": [user("x" * 80)] * 2}, ("string_above_max_length", "response.input")),
    "no item": ({"input": ["hello"]}, ("invalid_type", "response.input.0")),
    "another conversation": ({"conversation": "conv_x"}, ("unsupported", "response.conversation")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("conversation", ["none", "auto"])
def test_a_wrong_input_is_one_error_and_nothing_begins(name: str, conversation: str) -> None:
    response, expected = REFUSED[name]
    server = serve(settings=Settings(conversation=ConversationSettings(input_items_max=3, chars_max=100)))
    session = server.connect("websocket")
    aside(session, "mine", **({"conversation": conversation} | response))
    server.advance(500)
    assert last_error(session) == (*expected, "mine")
    assert created(session) == []
    session.type_text("go")
    server.advance(3000)
    assert list(ended(session).values()) == ["completed"]


def test_as_many_at_once_as_the_server_makes_and_a_lane_is_used_again() -> None:
    server = serve(LONG, settings=Settings(conversation=ConversationSettings(out_of_band_max=2)))
    session = server.connect("websocket")
    for n in range(3):
        aside(session, f"e{n}")
    assert last_error(session) == ("too_many_out_of_band_responses", "response.conversation", "e2")
    assert len(created(session)) == 2
    server.advance(2000)
    for n in range(2):
        aside(session, f"again{n}")
    server.advance(2000)
    assert list(ended(session).values()) == ["completed"] * 4
    asked = [effect.job for _, effect in session.effects if isinstance(effect, Submit)]
    lanes = [job.address.lane for job in asked if job.stage is Role.THINK]
    assert lanes == [1, 2, 1, 2]
    server.check()


def test_a_server_may_make_none() -> None:
    server = serve(settings=Settings(conversation=ConversationSettings(out_of_band_max=0)))
    session = server.connect("websocket")
    aside(session)
    assert last_error(session)[0] == "too_many_out_of_band_responses"


# Beside the conversation. -------------------------------------------------------------------------------------------


def test_the_conversation_has_one_writer_and_asides_do_not_count() -> None:
    server = serve(LONG)
    session = server.connect("websocket")
    aside(session)
    session.event(type="response.create", event_id="e1")
    aside(session)
    session.event(type="response.create", event_id="e2")
    code, _, event_id = last_error(session)
    assert (code, event_id) == ("conversation_already_has_active_response", "e2")
    assert created(session)[1] in session.client.of("error")[0]["error"]["message"]
    server.advance(20_000)
    assert sorted(ended(session).values()) == ["completed"] * 3
    server.check()


def test_a_voice_cuts_the_conversations_reply_and_no_other() -> None:
    server = serve(LONG, token_s=0.1)
    session = server.connect("webrtc")
    session.type_text("go")
    server.advance(1500)
    aside(session)
    server.advance(500)
    session.say(1000)
    server.advance(700)
    talk, beside = created(session)[:2]
    assert ended(session) == {talk: "cancelled"}
    server.advance(20_000)
    assert done(session)[beside]["status"] == "completed"
    assert done(session)[beside]["output"][0]["content"][0]["text"] == LONG
    server.check()


def test_cancel_with_its_id_ends_it_alone_and_without_an_id_the_conversations() -> None:
    server = serve(LONG, token_s=0.1)
    session = server.connect("websocket")
    session.type_text("go")
    aside(session, output_modalities=["audio"])
    aside(session)
    server.advance(1000)
    talk, spoken, written = created(session)
    session.event(type="response.cancel", response_id=spoken)
    assert ended(session) == {spoken: "cancelled"}
    assert done(session)[spoken]["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
    session.event(type="response.cancel")
    server.advance(100)
    assert ended(session) == {spoken: "cancelled", talk: "cancelled"}
    session.event(type="response.cancel", event_id="again", response_id=spoken)
    session.event(type="response.cancel", event_id="none")
    codes = [(event["error"]["code"], event["error"]["event_id"]) for event in session.client.of("error")]
    assert codes == [("response_cancel_not_active", "again"), ("response_cancel_not_active", "none")]
    server.advance(10_000)
    assert done(session)[written]["status"] == "completed"
    deltas = [at for at, e in session.client.events if e["type"].endswith("audio.delta") and e["response_id"] == spoken]
    assert deltas and deltas[-1] <= 1_000_000_000
    server.check()


def test_a_stage_that_fails_it_fails_it_alone() -> None:
    server = serve(LONG)
    session = server.connect("websocket")
    session.type_text("go")
    server.advance(1000)
    think = server.stage("think")
    submit, think.submit = think.submit, lambda job, emit: 1 / 0
    aside(session)
    server.advance(100)
    think.submit = submit
    talk, beside = created(session)
    assert ended(session) == {beside: "failed"}
    assert last_error(session)[0] == "stage_failed"
    server.advance(20_000)
    assert done(session)[talk]["status"] == "completed"
    aside(session)
    server.advance(3000)
    assert list(ended(session).values())[-1] == "completed"


@pytest.mark.parametrize("how", ["leave", "detach"])
def test_a_lost_client_ends_them_and_every_stage_gives_them_back(how: str) -> None:
    server = serve(LONG, token_s=0.1)
    session = server.connect("websocket")
    aside(session, output_modalities=["audio"])
    aside(session)
    server.advance(1000)
    if how == "leave":
        session.leave()
    else:
        session.actor.detach(server.world.now())
    server.advance(1000)
    assert server.stage("think").running == 0
    assert len(session.actor._beside) == 0
    assert session.actor._core._replies.asides._asides == []
    assert server.total("duplex_replies_total", status="cancelled") == 2
    server.check()


@pytest.mark.parametrize("seed", range(12))
def test_any_number_in_parallel_with_cuts_between_end_once_each_and_leave_nothing_stale(seed: int) -> None:
    server = Server(
        SimOptions(vad="level", script=(LONG, "A short one."), first_token_s=0.05, token_s=0.03, talk_s=0.01), seed=seed
    )
    rng = server.world.random
    for stage in ("talk", "vocode"):
        server.world.costs[stage] = lambda: rng.uniform(0.0, 0.06)
    transport: Any = "websocket" if seed % 2 else "webrtc"
    session = server.connect(transport)
    for _ in range(60):
        match rng.choice(["text", "audio", "cancel", "cancel any", "create", "speak", "wait", "over"]):
            case "text":
                aside(session)
            case "audio":
                aside(session, output_modalities=["audio"])
            case "over":
                session.event(type="response.create", response={"conversation": "none", "output_modalities": TEXT})
            case "cancel" if created(session):
                session.event(type="response.cancel", response_id=rng.choice(created(session)[-4:]))
            case "cancel any":
                session.event(type="response.cancel")
            case "create":
                session.type_text("go")
            case "speak":
                session.say(rng.uniform(300, 700))
            case _:
                server.advance(rng.uniform(500, 2000))
        server.advance(rng.uniform(0, 500))
        server.check()
    server.advance(60_000)
    assert sorted(ended(session)) == sorted(created(session))
    beside = [name for name, response in done(session).items() if response["conversation_id"] is None]
    assert len(beside) > 3
    kept = {item.id for item in session.actor._core.conversation.items()}
    assert not kept & {item["id"] for name in beside for item in done(session)[name]["output"]}
    assert len(session.actor._beside) == 0
    server.check()


# Who looks on. ------------------------------------------------------------------------------------------------------


def test_a_recorded_session_with_responses_beside_it_runs_again_to_the_same_effects(tmp_path: Path) -> None:
    server = serve(LONG, "two three", token_s=0.05)
    recording = recorder(tmp_path)
    under_record(server, recording)
    session = server.connect("websocket")
    session.type_text("go")
    aside(session, output_modalities=["audio"], input=[user("x")])
    aside(session)
    server.advance(1000)
    session.event(type="response.cancel", response_id=created(session)[1])
    server.advance(5000)
    hang_up(server, recording)
    recording.close()
    (file,) = (tmp_path / "recordings").iterdir()
    result = replay(file)
    assert (result.difference, result.warnings, result.end) == (None, [], "ended")


def test_timelines_and_turns_are_about_the_conversation() -> None:
    server = WatchedServer(script=("one two three.",), transcripts=("Hello.",))
    session = server.connect("websocket")
    session.say(900)
    server.advance(1200)
    aside(session, output_modalities=["audio"])
    aside(session)
    server.advance(200)
    session.event(type="response.cancel", response_id=created(session)[-1])
    server.advance(8000)
    talk = next(name for name, response in done(session).items() if response["conversation_id"] is not None)
    assert [turn.reply.id for turn in server.turns] == [talk]
    assert server.turns[0].epoch == 0 and not server.turns[0].events
    timeline = server.timeline(session)
    assert {event[2] for event in timeline.events if event[1] in ("created", "done", "audio", "sent")} == {talk}
    assert not [event for event in timeline.events if event[1] == "cut"]
    assert {work[7] for work in timeline.work if work[3] == "think"} == set(created(session))
