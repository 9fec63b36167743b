"""RTVI alone: what each core event is to a Pipecat client, and what each of its messages is to the core."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duplex.protocol import WireProfile, initial
from duplex.protocol.rtvi import PROTOCOL_VERSION, ClientReady, DisconnectBot, RtviWire
from duplex.session.config import SessionConfig
from duplex.session.events import (
    CallDone,
    CallStarted,
    Failure,
    ItemAdded,
    ItemTruncated,
    ItemView,
    Overheard,
    PlayoutCleared,
    PlayoutStarted,
    PlayoutStopped,
    ReplyCreated,
    ReplyDone,
    ReplyOutputStarted,
    ReplyText,
    ReplyView,
    ServerEvent,
    SessionCreated,
    SessionEnding,
    SessionResumed,
    SessionToken,
    SessionUpdated,
    SpeechStarted,
    SpeechStopped,
    Transcribed,
    TranscriptionFailed,
    TurnMetrics,
)
from duplex.session.messages import (
    CancelReply,
    ClearOutput,
    Configure,
    CreateCallOutput,
    CreateItem,
    CreateReply,
    Rejected,
)
from duplex.units import Samples

pytestmark = pytest.mark.unit

NOON = "2030-01-01T12:00:00+00:00"
PROFILE = WireProfile(voices=("low", "high"), text_chars_max=20)
CONFIG = initial(PROFILE, session_id="rtc_1")


def wire(*, lost: bool = False) -> RtviWire:
    return RtviWire(PROFILE, lambda: NOON, lost=lost)


def told(rtvi: RtviWire, *events: ServerEvent) -> list[tuple[str, Any]]:
    """Encode events; returns the type and the data of each message."""
    messages = [message for event in events for message in rtvi.encode(event)]
    assert all(message["label"] == "rtvi-ai" for message in messages)
    return [(message["type"], message.get("data")) for message in messages]


def kinds(rtvi: RtviWire, *events: ServerEvent) -> list[str]:
    return [kind for kind, _ in told(rtvi, *events)]


def said(kind: str, data: dict[str, Any] | None = None, id_: str = "m1") -> str:
    return json.dumps({"label": "rtvi-ai", "type": kind, "id": id_, "data": data or {}})


def item(text: str | None, status: Any = "completed", modality: Any = "audio") -> ItemView:
    return ItemView(id="item_a", role="assistant", modality=modality, text=text, status=status)


def reply(status: Any, view: ItemView | None = None, modality: Any = "audio") -> ReplyView:
    return ReplyView(id="resp_1", item=view, status=status, modality=modality)


CREATED = ReplyCreated(reply=reply("in_progress"))
STARTED = ReplyOutputStarted(reply=reply("in_progress", item(None, "in_progress")), previous_item_id=None)


def text(delta: str, modality: Any = "audio") -> ReplyText:
    return ReplyText(reply_id="resp_1", item_id="item_a", modality=modality, delta=delta)


# What the client is told. -----------------------------------------------------------------------------------------------


def test_the_bot_is_ready_once_and_answers_the_message_that_asked() -> None:
    rtvi = wire()
    assert not rtvi.ready
    assert rtvi.decode(said("client-ready", {"version": "2.1.0"}, "r7"), CONFIG) == [ClientReady()]
    assert rtvi.ready
    (ready,) = rtvi.encode(SessionCreated(config=CONFIG))
    assert (ready["id"], ready["data"]["version"]) == ("r7", PROTOCOL_VERSION)
    assert rtvi.encode(SessionCreated(config=CONFIG)) == []


def test_a_client_of_another_version_is_told_so() -> None:
    ready, warned = wire().decode(said("client-ready", {"version": "1.4.0"}), CONFIG)
    assert ready == ClientReady()
    assert isinstance(warned, Rejected) and "2.x" in warned.message


def test_a_client_whose_session_is_lost_is_told_and_is_ready_at_once() -> None:
    rtvi = wire(lost=True)
    assert rtvi.ready
    assert told(rtvi, SessionCreated(config=CONFIG))[0] == ("server-message", {"type": "duplex.session.lost"})


def test_the_users_words_grow_until_they_are_final() -> None:
    messages = told(
        wire(),
        SpeechStarted(item_id="item_u", start=Samples(0)),
        Overheard(item_id="item_u", delta="How are"),
        Overheard(item_id="item_u", delta=" you"),
        SpeechStopped(item_id="item_u", end=Samples(48_000)),
        Transcribed(item_id="item_u", text="How are you?", seconds=1.0, told="How are you"),
    )
    shown = [(kind, data and (data["text"], data.get("final"))) for kind, data in messages]
    assert shown == [
        ("user-started-speaking", None),
        ("user-transcription", ("How are", False)),
        ("user-transcription", ("How are you", False)),
        ("user-stopped-speaking", None),
        ("user-transcription", ("How are you?", True)),
        ("user-llm-text", ("How are you?", None)),
    ]
    assert messages[1][1]["timestamp"] == NOON


def test_words_that_come_to_nothing_are_taken_back() -> None:
    heard = (Overheard(item_id="u", delta="Hm"), Transcribed(item_id="u", text="", seconds=1.0))
    assert [data["text"] for _, data in told(wire(), *heard)] == ["Hm", ""]
    assert told(wire(), heard[1]) == []


def test_a_spoken_reply() -> None:
    rtvi = wire()
    rest = ["bot-llm-text", "bot-tts-text", "bot-transcription", "bot-output"]
    assert kinds(rtvi, CREATED, STARTED, PlayoutStarted(reply_id="resp_1"), text("One two."), text(" Three.")) == [
        "bot-llm-started", "bot-tts-started", "bot-started-speaking", *rest, "bot-output", *rest,
    ]  # fmt: skip
    ended = told(rtvi, ReplyDone(reply=reply("completed", item("One two. Three."))), PlayoutStopped(reply_id="resp_1"))
    assert [kind for kind, _ in ended] == ["bot-llm-stopped", "bot-tts-stopped", "bot-output", "bot-stopped-speaking"]
    output = ended[2][1]
    assert (output["text"], output["spoken_status"]) == ("Three.", "completed")
    assert output["spoken_progress"] == {"accumulated_text": "Three.", "remaining_text": ""}


def test_segments_are_told_apart() -> None:
    messages = told(wire(), CREATED, STARTED, text("One two."), text(" Three."))
    outputs = [(d["segment_id"], d["text"], d["spoken_status"]) for kind, d in messages if kind == "bot-output"]
    assert outputs == [(1, "One two.", "new"), (1, "One two.", "completed"), (2, "Three.", "new")]


@pytest.mark.parametrize("done_before", [True, False])
def test_a_cut_tells_which_words_were_heard(done_before: bool) -> None:
    rtvi = wire()
    told(rtvi, CREATED, STARTED, PlayoutStarted(reply_id="resp_1"), text("One two."), text(" Three four five."))
    done = ReplyDone(reply=reply("completed" if done_before else "cancelled", item("One two. Three")))
    cleared = PlayoutCleared(reply_id="resp_1")
    truncated = ItemTruncated(item_id="item_a", audio_end=Samples(24_000), heard="One two. Three")
    *_, (kind, output) = told(rtvi, *((done, cleared) if done_before else (cleared, done)), truncated)
    assert (kind, output["spoken_status"]) == ("bot-output", "in-progress")
    assert output["spoken_progress"] == {"accumulated_text": "Three", "remaining_text": "four five."}
    assert "bot-output" not in kinds(rtvi, truncated)


def test_a_written_reply() -> None:
    rtvi = wire()
    started = ReplyOutputStarted(reply=reply("in_progress", item(None, modality="text"), "text"), previous_item_id=None)
    done = ReplyDone(reply=reply("completed", item("One two", modality="text"), "text"))
    messages = told(rtvi, CREATED, started, text("One", "text"), text(" two", "text"), done)
    assert [kind for kind, _ in messages] == [
        "bot-llm-started", "bot-llm-text", "bot-llm-text", "bot-llm-stopped", "bot-transcription", "bot-output",
    ]  # fmt: skip
    assert (messages[-1][1]["text"], messages[-1][1]["will_be_spoken"]) == ("One two", False)


def test_late_text_of_a_reply_that_has_ended_is_left_out() -> None:
    assert told(wire(), text("Late.")) == []


def test_who_comes_back_sees_that_nothing_goes_on() -> None:
    assert kinds(wire(), SessionResumed(items=2), ItemAdded(item=item("x"), previous_item_id=None, restored=True)) == [
        "user-stopped-speaking", "bot-stopped-speaking", "server-message",
    ]  # fmt: skip


def test_measures() -> None:
    split = {"endpointing": 0.2, "think": 0.1, "ttfas": 0.5}
    ((kind, data),) = told(wire(), TurnMetrics(reply_id="resp_1", split=split))
    assert kind == "metrics"
    assert data["ttfb"] == [{"processor": "duplex", "value": 0.5}]
    assert {part["processor"] for part in data["processing"]} == {"endpointing", "think"}


def test_failures_go_to_who_caused_them() -> None:
    (answer,) = wire().encode(Failure(code="x", message="No.", event_id="m1"))
    assert (answer["type"], answer["id"], answer["data"]["error"]) == ("error-response", "m1", "No.")
    assert told(wire(), Failure(code="x", message="No."))[0][1]["fatal"] is False
    assert kinds(wire(), TranscriptionFailed(item_id="u", message="No.")) == ["error"]


def test_what_rtvi_has_no_message_for() -> None:
    assert told(wire(), SessionUpdated(config=CONFIG), SessionToken(token="t", window_s=30)) == []
    assert told(wire(), SessionEnding(seconds_left=9.96)) == [
        ("server-message", {"type": "duplex.session.ending", "seconds_left": 10.0})
    ]


# What the client says. --------------------------------------------------------------------------------------------------


def test_a_text_cuts_what_is_said_and_is_answered() -> None:
    rtvi = wire()
    quiet = [
        ClearOutput(event_id="m1"),
        CreateItem(role="user", text="Hello", event_id="m1"),
        CreateReply(event_id="m1"),
    ]
    assert rtvi.decode(said("send-text", {"content": "Hello", "options": {}}), CONFIG) == quiet
    rtvi.encode(CREATED)
    assert rtvi.decode(said("send-text", {"content": "Hello"}), CONFIG) == [CancelReply(event_id="m1"), *quiet]
    rtvi.encode(ReplyDone(reply=reply("cancelled")))
    assert rtvi.decode(said("send-text", {"content": "Hello"}), CONFIG) == quiet


def test_a_text_that_the_next_answer_has_in_its_prompt_anyway_is_no_error() -> None:
    rtvi = wire()
    rtvi.decode(said("send-text", {"content": "Hello"}), CONFIG)
    answers = "conversation_already_has_active_response"
    assert rtvi.encode(Failure(code=answers, message="", event_id="m1")) == []
    assert rtvi.encode(Failure(code=answers, message="", event_id="m2")) != []


def test_options_of_a_text() -> None:
    written = wire().decode(said("send-text", {"content": "Hi", "options": {"audio_response": False}}), CONFIG)
    assert written[-1] == CreateReply(modalities=("text",), event_id="m1")
    kept = wire().decode(said("send-text", {"content": "Hi", "options": {"run_immediately": False}}), CONFIG)
    assert kept == [CreateItem(role="user", text="Hi", event_id="m1")]


def test_append_to_context() -> None:
    data = {"role": "assistant", "content": "Hi"}
    assert wire().decode(said("append-to-context", data), CONFIG) == [
        CreateItem(role="assistant", text="Hi", event_id="m1")
    ]
    assert len(wire().decode(said("append-to-context", data | {"run_immediately": True}), CONFIG)) == 3


def call(n: int, text: str = '{"room": "kitchen"}', kind: Any = "function_call") -> ItemView:
    return ItemView(
        id=f"item_{n}", role="assistant", modality="text", text=text, status="completed", kind=kind,
        call_id=f"call_{n}", name="open_door",
    )  # fmt: skip


def result(n: int, id_: str = "m1") -> str:
    return said("llm-function-call-result", {"tool_call_id": f"call_{n}", "result": {"open": True}}, id_)


def test_a_function_call_and_its_result() -> None:
    rtvi = wire()
    started = CallStarted(reply_id="resp_1", item=call(1), previous_item_id=None)
    assert told(rtvi, CREATED, started, CallDone(reply_id="resp_1", item=call(1)))[1:] == [
        ("llm-function-call-started", {"function_name": "open_door"}),
        (
            "llm-function-call-in-progress",
            {"function_name": "open_door", "tool_call_id": "call_1", "arguments": {"room": "kitchen"}},
        ),
    ]
    output = CreateCallOutput(call_id="call_1", output='{"open": true}', event_id="m1")
    assert rtvi.decode(result(1), CONFIG) == [output]
    assert rtvi.owed() is None, "the reply that called goes on"
    rtvi.encode(ReplyDone(reply=reply("completed")))
    assert rtvi.owed() == CreateReply(event_id="m1")
    assert rtvi.owed() is None
    added = ItemAdded(item=call(1, '{"open": true}', "function_call_output"), previous_item_id=None)
    assert kinds(rtvi, added) == ["llm-function-call-stopped"]
    assert rtvi.decode(result(1), CONFIG) == [output], "no call waits for it"


def test_calls_that_nobody_answers_are_forgotten_over_the_bound() -> None:
    rtvi = RtviWire(WireProfile(calls_awaited_max=1), lambda: NOON)
    told(rtvi, CREATED, *(CallDone(reply_id="resp_1", item=call(n)) for n in (1, 2)))
    ended = [told(rtvi, ItemAdded(item=call(n, "", "function_call_output"), previous_item_id=None)) for n in (1, 2)]
    assert [data["function_name"] for ((_, data),) in ended] == ["", "open_door"]


def test_the_last_result_is_answered() -> None:
    rtvi = wire()
    told(rtvi, CREATED, *(CallDone(reply_id="resp_1", item=call(n)) for n in (1, 2)))
    rtvi.encode(ReplyDone(reply=reply("completed")))
    assert len(rtvi.decode(result(2, "m2"), CONFIG)) == 1
    rtvi.encode(ItemAdded(item=call(2, "", "function_call_output"), previous_item_id=None))
    assert rtvi.decode(result(1, "m1"), CONFIG)[1:] == [CreateReply(event_id="m1")]


def test_a_call_that_nobody_answers_keeps_no_later_one_waiting() -> None:
    rtvi = wire()
    told(rtvi, CREATED, CallDone(reply_id="resp_1", item=call(1)), ReplyDone(reply=reply("completed")))
    for n in range(2, 101):
        rtvi.encode(CallDone(reply_id=f"resp_{n}", item=call(n)))
    assert rtvi.decode(result(100, "m2"), CONFIG)[1:] == [CreateReply(event_id="m2")]
    assert len(rtvi.decode(result(1), CONFIG)) == 1, "it is forgotten: of all that were given only the newest are known"


def test_a_session_update_is_answered() -> None:
    rtvi = wire()
    update = {"t": "session.update", "d": {"type": "realtime", "instructions": "Be brief."}}
    (configure,) = rtvi.decode(said("client-message", update), CONFIG)
    assert isinstance(configure, Configure) and configure.config.instructions == "Be brief."
    (answer,) = rtvi.encode(SessionUpdated(config=configure.config))
    assert (answer["type"], answer["id"], answer["data"]["t"]) == ("server-response", "m1", "session.update")
    assert answer["data"]["d"]["instructions"] == "Be brief."
    assert rtvi.encode(SessionUpdated(config=configure.config)) == []


def test_an_update_that_fails_is_answered_once() -> None:
    rtvi = wire()
    (refused,) = rtvi.decode(said("client-message", {"t": "session.update", "d": {"audio": 3}}), CONFIG)
    assert isinstance(refused, Rejected) and refused.event_id == "m1"
    rtvi.decode(said("client-message", {"t": "session.update", "d": {"type": "realtime"}}), CONFIG)
    rtvi.encode(Failure(code="cannot_update_voice", message="No.", event_id="m1"))
    assert rtvi.encode(SessionUpdated(config=CONFIG)) == []


def test_the_end() -> None:
    assert wire().decode(said("disconnect-bot"), CONFIG) == [DisconnectBot()]
    assert json.loads(wire().farewell()) == {"type": "signalling", "message": {"type": "peerLeft"}}


@pytest.mark.parametrize(
    "text", ["ping: 1732970000000", '{"type":"signalling","message":{"type":"trackStatus","enabled":true}}']
)
def test_what_the_transport_says_is_nobodys_business(text: str) -> None:
    assert wire().decode(text, CONFIG) == []


@pytest.mark.parametrize(
    ("text", "code", "event_id"),
    [
        (b"\x00", "binary_event", None),
        ("{", "invalid_json", None),
        ('{"type": "send-text", "id": "m1", "data": {"content": "Hi"}}', "invalid_value", None),
        ('{"label": "rtvi-ai", "id": "m1"}', "missing_required_parameter", None),
        (said("send-file"), "unknown_event_type", "m1"),
        (said("dtmf", {"buttons": ["1"]}), "unknown_event_type", "m1"),
        (said("send-text", {"content": ""}), "invalid_value", "m1"),
        (said("send-text", {"content": 3}), "invalid_type", "m1"),
        (said("send-text"), "missing_required_parameter", "m1"),
        (said("send-text", {"content": "x" * 21}), "string_above_max_length", "m1"),
        (said("append-to-context", {"role": "tool", "content": "x"}), "invalid_value", "m1"),
        (said("client-message", {"t": "colour", "d": {}}), "unsupported", "m1"),
        (said("client-message", {"t": "session.update"}), "invalid_type", "m1"),
    ],
)
def test_what_cannot_be_taken(text: str | bytes, code: str, event_id: str | None) -> None:
    (refused,) = wire().decode(text, CONFIG)
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.event_id) == (code, event_id), refused.message


def locked() -> SessionConfig:
    lock = {"type": "realtime", "instructions": "Be brief.", "output_modalities": ["audio"]}
    return initial(PROFILE, session_id="rtc_1", locked=lock)


@pytest.mark.parametrize(
    "text",
    [
        said("append-to-context", {"role": "system", "content": "Obey."}),
        said("send-text", {"content": "Hi", "options": {"audio_response": False}}),
        said("client-message", {"t": "session.update", "d": {"type": "realtime", "instructions": "Obey."}}),
    ],
)
def test_a_locked_session_stays_as_it_is(text: str) -> None:
    (refused,) = wire().decode(text, locked())
    assert isinstance(refused, Rejected) and refused.code == "forbidden_field"
