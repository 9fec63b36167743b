"""Field cases of the protocol kind on simulated time, and what clients of such servers report in public.

case  what goes wrong elsewhere                                 shown here by, and also by
C35   a second response.create, a turn and a side job at once   c35; test_client_errors, test_out_of_band
C36   response.cancel with nothing to cancel                    c36; test_client_errors, test_turn_cases (c28)
C37   empty and double commits                                  c37; test_client_errors, test_bad_input of protocol/
C40   values that end a session without an error                test_bad_input of protocol/, test_live_websocket
C41   lifecycle events that are missing or out of order         c41; test_wire_events, test_tools
C43   an interrupted call poisons the conversation              c43; test_tools
C44   transcript deltas that are no deltas                      c44; test_partials
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from duplex_models.sim import SimOptions
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from duplex.protocol import TransportName
from tests.sim.world import Server, Session

pytestmark = pytest.mark.sim
SERVER_EVENT: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
WEATHER = {
    "type": "function", "name": "get_weather", "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}  # fmt: skip
PARIS = 'call get_weather {"city": "Paris"}'
SAY_PARIS = 'say and call get_weather {"city": "Paris"}'
LONG = " ".join(f"word{i}" for i in range(40))
KIND = "conversation.item.input_audio_transcription"


def serve(*script: str, **options: Any) -> Server:
    chosen = {"vad": "level", "script": script or ("One two three.",), "first_token_s": 0.05, "token_s": 0.02}
    return Server(SimOptions(**(chosen | options)))


def statuses(session: Session) -> list[str]:
    return [event["response"]["status"] for event in session.client.of("response.done")]


def errors(session: Session) -> list[tuple[str, str | None]]:
    return [(event["error"]["code"], event["error"]["event_id"]) for event in session.client.of("error")]


# C35, C36, C37: the wrong moment. ------------------------------------------------------------------------------------


@pytest.mark.parametrize("apart_ms", [0, 5])
def test_c35_of_two_creates_and_a_turn_at_once_each_is_answered_or_refused(apart_ms: int) -> None:
    """The first speaks, the second is refused by name, the turn that ends meanwhile is answered behind it."""
    detection = {"type": "server_vad", "silence_duration_ms": 200, "interrupt_response": False}
    wire = {"type": "realtime", "audio": {"input": {"turn_detection": detection}}}
    for moment_ms in range(1000, 1240, 24):  # around the turn's commit, which comes at about 1100
        server = serve("One two three.", transcripts=("my turn",))
        session = server.connect(wire=wire)
        session.say(900)
        server.advance(moment_ms)
        session.event(type="response.create", event_id="e1")
        server.advance(apart_ms)
        session.event(type="response.create", event_id="e2")
        server.advance(15_000)
        assert ("conversation_already_has_active_response", "e2") in errors(session)
        active = session.client.of("response.created")[0]["response"]["id"]
        assert active in session.client.of("error")[-1]["error"]["message"]
        assert statuses(session) and set(statuses(session)) == {"completed"}
        asked = [message.text for prompt in server.stage("think").prompts for message in prompt.messages]
        assert "my turn" in asked, "the turn is queued, not lost"
        overlapping(session)
        server.check()


def overlapping(session: Session) -> None:
    """Check that no response of the conversation begins while another runs: never two voices."""
    running: str | None = None
    for event in session.client.of("response.created", "response.done"):
        if event["type"] == "response.created":
            assert running is None
            running = event["response"]["id"]
        else:
            assert running == event["response"]["id"]
            running = None


def test_c35_a_response_beside_the_conversation_is_no_second_voice() -> None:
    server = serve("One two three four five.", LONG)
    session = server.connect("websocket")
    session.type_text("go")
    server.advance(300)
    beside = {"conversation": "none", "output_modalities": ["text"], "input": [], "metadata": {"kind": "guard"}}
    session.event(type="response.create", response=beside, event_id="guard")
    server.advance(20_000)
    assert not errors(session)
    assert statuses(session) == ["completed", "completed"]
    sounding = {event["response_id"] for event in session.client.of("response.output_audio.delta")}
    assert sounding == {session.client.of("response.created")[0]["response"]["id"]}


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
def test_c36_a_cancel_with_nothing_to_cancel_is_an_error_and_no_more(transport: TransportName) -> None:
    """At the start, while the user's words are transcribed, and when all was said."""
    server = serve(transcribe_s=0.3)
    session = server.connect(transport)
    session.event(type="response.cancel", event_id="start")
    session.say(800)
    server.advance(1050)
    session.event(type="response.cancel", response_id="resp_of_another", event_id="meanwhile")
    server.advance(7000)
    session.event(type="response.cancel", event_id="after")
    assert errors(session) == [("response_cancel_not_active", name) for name in ("start", "meanwhile", "after")]
    assert session.client.of(f"{KIND}.completed")
    session.type_text("and now?")
    server.advance(3000)
    assert statuses(session) == ["completed", "completed"]
    server.check()


def test_c37_a_commit_within_five_milliseconds_of_the_servers_own_is_empty() -> None:
    for lag_ms in range(6):
        server = serve()
        session = server.connect("websocket")
        session.say(900)
        while not session.client.of("input_audio_buffer.committed"):
            server.advance(1)
        server.advance(lag_ms)
        items = len(session.actor._core.conversation)
        session.event(type="input_audio_buffer.commit", event_id="mine")
        assert errors(session) == [("input_audio_buffer_commit_empty", "mine")]
        assert len(session.actor._core.conversation) == items
        server.advance(5000)
        assert statuses(session) == ["completed"]
        server.check()


# C41: the lifecycle. -------------------------------------------------------------------------------------------------


class ResponsesCheck:
    """Follows responses through created, items, parts, deltas, and their end, as a client's state machine does."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.items: dict[str, Any] = {}
        """Items that have begun and not ended, by id: the event that began them."""
        self.parts: dict[str, str] = {}
        """Their content parts: the words so far."""
        self.ended: list[dict[str, Any]] = []

    def take(self, event: dict[str, Any]) -> None:
        kind = event["type"].removeprefix("response.")
        if kind == "created":
            self.running.add(event["response"]["id"])
        elif kind.startswith("output_item."):
            self._item(kind, event)
        elif kind in ("output_audio_transcript.delta", "output_text.delta"):
            assert self.items[event["item_id"]]["output_index"] == event["output_index"]
            self.parts[event["item_id"]] += event["delta"]
        elif kind in ("output_audio_transcript.done", "output_text.done"):
            assert event.get("transcript", event.get("text")) == self.parts[event["item_id"]]
        elif kind.startswith("content_part."):
            self._part(kind, event["item_id"])
        elif kind == "done":
            self._done(event["response"])

    def _item(self, kind: str, event: dict[str, Any]) -> None:
        name = event["item"]["id"]
        assert event["response_id"] in self.running
        if kind == "output_item.added":
            assert event["output_index"] == len(self.ended) + len(self.items)
            self.items[name] = event
            return
        assert self.items.pop(name)["output_index"] == event["output_index"]
        assert name not in self.parts
        assert event["item"]["status"] in ("completed", "incomplete")
        self.ended.append(event)

    def _part(self, kind: str, item: str) -> None:
        if kind == "content_part.added":
            assert item in self.items
            self.parts[item] = ""
        else:
            del self.parts[item]

    def _done(self, response: dict[str, Any]) -> None:
        self.running.remove(response["id"])
        assert not self.items and not self.parts
        items = [event["item"] for event in sorted(self.ended, key=lambda event: int(event["output_index"]))]
        assert [(item["id"], item["status"]) for item in response["output"]] == [(i["id"], i["status"]) for i in items]
        assert response["usage"]["input_tokens"] >= 0
        self.ended.clear()


def check_responses(session: Session) -> None:
    """Check the whole life of each response of a session whose responses do not overlap, and each event's own form."""
    check = ResponsesCheck()
    for _, event in session.client.events:
        if not event["type"].startswith("duplex."):
            assert SERVER_EVENT.validate_python(event, strict=True).type == event["type"]
        check.take(event)
    assert not check.running
    ids = [event["event_id"] for _, event in session.client.events]
    assert len(ids) == len(set(ids))


def whole(server: Server, session: Session) -> None:
    session.type_text("hello")


def with_a_call(server: Server, session: Session) -> None:
    session.type_text(SAY_PARIS)


def calls_only(server: Server, session: Session) -> None:
    session.type_text(f"{PARIS} {PARIS}")


def cut_at_once(server: Server, session: Session) -> None:
    session.type_text("hello")
    session.event(type="response.cancel")


def cut_before_the_first_word(server: Server, session: Session) -> None:
    session.type_text("hello")
    server.advance(60)
    assert not session.client.of("response.output_audio_transcript.delta")
    session.event(type="response.cancel")


def cut_in_the_middle(server: Server, session: Session) -> None:
    session.type_text("hello")
    server.advance(1500)
    session.event(type="response.cancel")


def cut_after_two_items(server: Server, session: Session) -> None:
    session.type_text(SAY_PARIS)
    while not session.client.of("response.function_call_arguments.done"):
        server.advance(10)
    session.event(type="response.cancel")


def text_only(server: Server, session: Session) -> None:
    session.event(type="response.create", response={"output_modalities": ["text"]})


def too_short(server: Server, session: Session) -> None:
    session.event(type="response.create", response={"max_output_tokens": 2, "output_modalities": ["text"]})


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
@pytest.mark.parametrize(
    ("script", "status"),
    [
        (whole, "completed"), (with_a_call, "completed"), (calls_only, "completed"), (cut_at_once, "cancelled"),
        (cut_before_the_first_word, "cancelled"), (cut_in_the_middle, "cancelled"), (cut_after_two_items, "cancelled"),
        (text_only, "completed"), (too_short, "incomplete"),
    ],
)  # fmt: skip
def test_c41_each_response_has_its_whole_life_in_order(
    script: Callable[[Server, Session], None], status: str, transport: TransportName
) -> None:
    server = serve(LONG)
    wire = {"type": "realtime", "tools": [WEATHER], "duplex": {"lead_ms": 500}}
    session = server.connect(transport, wire=wire)
    script(server, session)
    server.advance(20_000)
    assert statuses(session) == [status]
    check_responses(session)
    server.check()


# C43, C44. -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", ["while it runs", "in its arguments"])
def test_c43_after_an_interrupted_call_three_more_turns_are_answered(cut: str) -> None:
    server = serve("Fine.", token_s=0.9 if cut == "in its arguments" else 0.02)
    session = server.connect("websocket", wire={"type": "realtime", "tools": [WEATHER]})
    session.mute()
    session.type_text(PARIS)
    waited = "delta" if cut == "in its arguments" else "done"
    while not session.client.of(f"response.function_call_arguments.{waited}"):
        server.advance(10)
    call = session.client.of("response.output_item.added")[0]["item"]["call_id"]
    if cut == "in its arguments":
        session.event(type="response.cancel")
    server.advance(100)
    session.type_text("never mind")
    server.advance(300)
    late = {"type": "function_call_output", "call_id": call, "output": '{"degrees": 18}'}
    session.event(type="conversation.item.create", item=late, event_id="late")
    for _ in range(3):
        server.advance(8000)
        session.type_text("and now?")
    server.advance(8000)
    assert statuses(session)[1:] == ["completed"] * 4
    refused = [("invalid_tool_call_id", "late")] if cut == "in its arguments" else []
    assert errors(session) == refused
    told = server.stage("think").prompts[-1].messages
    calls = [each for message in told for each in message.calls]
    assert all(json.loads(each.arguments) == {"city": "Paris"} for each in calls), "no half of a call is kept"
    assert (call in {each.id for each in calls}) == (cut == "while it runs")
    server.check()


def transcripts_of(session: Session) -> dict[str, tuple[str, list[str]]]:
    """Return what the deltas of each item add up to, and how it ended."""
    told: dict[str, tuple[str, list[str]]] = {}
    for event in session.client.of(f"{KIND}.delta", f"{KIND}.completed", f"{KIND}.failed"):
        words, ends = told.setdefault(event["item_id"], ("", []))
        if event["type"].endswith("delta"):
            assert not ends, "nothing behind the end"
            told[event["item_id"]] = (words + event["delta"], ends)
        else:
            ends.append(event.get("transcript", "failed"))
    return told


def test_c44_deltas_add_up_to_the_transcript_of_their_own_item() -> None:
    """Fifteen seconds that are told as they grow, and then two turns whose transcriptions overlap in time."""
    growing = tuple(" ".join(f"word{i}" for i in range(1, n)) for n in range(2, 30))
    server = serve("Fine.", partials=growing, transcripts=(f"{growing[-1]} the end.", "second one", "third one"))
    detection = {"type": "server_vad", "silence_duration_ms": 200, "interrupt_response": False}
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})
    session.say(15_000)
    server.advance(18_000)
    (first,) = transcripts_of(session).values()
    assert first == (f"{growing[-1]} the end.", [f"{growing[-1]} the end."])
    assert len(session.client.of(f"{KIND}.delta")) > 5
    server.world.costs["transcribe"] = lambda: 1.5
    for _ in range(2):
        session.say(500)
        server.advance(900)
    server.advance(15_000)
    ends = [ends for _, ends in transcripts_of(session).values()]
    assert [len(each) for each in ends] == [1, 1, 1]
    started = {event["item_id"] for event in session.client.of("input_audio_buffer.committed")}
    assert set(transcripts_of(session)) == started
    server.check()


def test_c44_noise_without_words_ends_its_item_too() -> None:
    server = serve("Fine.", transcripts=("",))
    session = server.connect()
    session.say(900)
    server.advance(4000)
    (committed,) = session.client.of("input_audio_buffer.committed")
    assert transcripts_of(session) == {committed["item_id"]: ("", [""])}
    assert not session.client.of("response.created")


# What clients report of servers that speak this protocol. -------------------------------------------------------------


def test_a_refused_truncate_during_a_barge_in_silences_nothing() -> None:
    """Clients cut by the wall clock, past the end of what was sent (pipecat-ai/pipecat#3677, openai-agents-python#2370)."""
    server = serve(LONG, "Still here.")
    session = server.connect("websocket")
    session.type_text("go")
    server.advance(2000)
    item = session.client.of("response.output_item.added")[0]["item"]["id"]
    session.say(900)
    while not session.client.of("input_audio_buffer.speech_started"):
        server.advance(10)
    cut = {"type": "conversation.item.truncate", "item_id": item, "content_index": 0}
    session.event(**cut, audio_end_ms=60_000, event_id="late")
    session.event(**cut, audio_end_ms=1412.5, event_id="fraction")  # openai-agents-js#552
    assert [code for code, _ in errors(session)] == ["invalid_truncate", "invalid_type"]
    assert [event["error"]["param"] for event in session.client.of("error")] == ["audio_end_ms"] * 2
    server.advance(12_000)
    assert statuses(session) == ["cancelled", "completed"]
    second = session.client.of("response.done")[1]["response"]["id"]
    assert any(event["response_id"] == second for event in session.client.of("response.output_audio.delta"))
    server.check()


def test_tuning_a_detector_by_one_field_keeps_it_and_the_rest() -> None:
    """A shallow merge loses the type, and with it the detector (sgl-project/sglang-omni#385)."""
    server = serve()
    session = server.connect()

    def tune(**fields: Any) -> dict[str, Any]:
        session.event(type="session.update", session={"audio": {"input": {"turn_detection": fields}}})
        shown: dict[str, Any] = session.client.of("session.updated")[-1]["session"]["audio"]["input"]["turn_detection"]
        return shown

    before = tune(type="server_vad", silence_duration_ms=300)
    assert tune(threshold=0.8) == before | {"threshold": 0.8}
    session.say(900)
    server.advance(6000)
    assert statuses(session) == ["completed"]


def test_every_update_is_answered_even_one_that_changes_nothing() -> None:
    """A client waits for session.updated before it sends audio (huggingface/speech-to-speech#413)."""
    server = serve()
    session = server.connect("websocket")
    for update in ({}, {"type": "realtime"}, {"instructions": "Be brief."}):
        session.event(type="session.update", session=update)
    assert session.client.types()[2:] == ["session.updated"] * 3


def test_instructions_that_come_during_the_first_turn_hold_for_its_answer() -> None:
    """Audio overtakes the update, and the first answer is made without it (pipecat-ai/pipecat#5354)."""
    server = serve()
    session = server.connect("websocket")
    session.say(900)
    server.advance(1000)  # the answer's draft has begun already
    session.event(type="session.update", session={"instructions": "Answer like a pirate."})
    server.advance(6000)
    assert statuses(session) == ["completed"]
    assert server.stage("think").prompts[-1].messages[0].text == "Answer like a pirate."


def test_a_detector_that_was_off_for_long_does_not_fire_when_it_is_on_again() -> None:
    """The idle timer goes on meanwhile, and the model speaks at once (openai-agents-js#1346)."""
    server = serve()
    detection = {"type": "server_vad", "idle_timeout_ms": 5000}
    session = server.connect(wire={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})
    session.type_text("go")
    server.advance(3000)
    for turned in (None, detection):
        session.event(type="session.update", session={"audio": {"input": {"turn_detection": turned}}})
        server.advance(8000 if turned is None else 4000)
    assert not session.client.of("input_audio_buffer.timeout_triggered")
    assert statuses(session) == ["completed"]


@pytest.mark.parametrize("way", ["cancelled", "failed"])
def test_a_response_that_does_not_complete_has_its_usage_and_output_all_the_same(way: str) -> None:
    """Clients read `usage.input_tokens` and `output` unasked (pipecat-ai/pipecat#623, speech-to-speech#416)."""
    server = serve(LONG)
    session = server.connect("websocket")
    if way == "failed":
        server.stage("talk").step = lambda jobs: 1 / 0
    session.type_text("go")
    server.advance(600)
    session.event(type="response.cancel")
    server.advance(3000)
    (done,) = session.client.of("response.done")
    assert done["response"]["status"] == way
    assert isinstance(done["response"]["output"], list)
    usage = done["response"]["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    check_responses(session)
