"""The wire's order of events, and every event against the openai client's own types.

Each script is one conversation as the core tells it; beside it stands what a client has to see. Then every event is
parsed strictly by the client's types, and a field those types do not have must be in the list of known extras.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import openai
import pytest
from openai.types.realtime import RealtimeServerEvent
from pydantic import BaseModel, TypeAdapter

from duplex.protocol import TransportName, WireEncoder, WireProfile, initial
from duplex.session.events import (
    Failure,
    InputCleared,
    InputCommitted,
    ItemAdded,
    ItemDeleted,
    ItemRetrieved,
    ItemTruncated,
    ItemView,
    PlayoutCleared,
    PlayoutStarted,
    PlayoutStopped,
    ReplyAudio,
    ReplyCreated,
    ReplyDone,
    ReplyOutputStarted,
    ReplyStatus,
    ReplyText,
    ReplyView,
    ServerEvent,
    SessionCreated,
    SessionUpdated,
    SpeechStarted,
    SpeechStopped,
    StatusReason,
    Transcribed,
    TranscriptionFailed,
    TurnMetrics,
)
from duplex.units import Samples

pytestmark = pytest.mark.protocol

SERVER_EVENT: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
EXTRAS = {
    "session.id", "session.object", "session.expires_at", "session.duplex",
    "response.usage.duplex",
}  # fmt: skip
"""Fields of ours that the client's types do not name: those of the created session object, and our prefix."""
CONFIG = initial(WireProfile(model="sim"), session_id="sess_1")


def assistant(text: str | None, status: str = "completed", modality: str = "audio") -> ItemView:
    return ItemView(id="item_a", role="assistant", modality=modality, text=text, status=status)  # type: ignore[arg-type]


def user(text: str | None, modality: str = "audio") -> ItemView:
    return ItemView(id="item_u", role="user", modality=modality, text=text, status="completed")  # type: ignore[arg-type]


def reply(
    status: ReplyStatus,
    item: ItemView | None = None,
    reason: StatusReason | None = None,
    modality: str = "audio",
    error: str | None = None,
    out_of_band: bool = False,
) -> ReplyView:
    return ReplyView(
        id="resp_1",
        item=item,
        status=status,
        reason=reason,
        error=error,
        modality=modality,  # type: ignore[arg-type]
        voice="default",
        tokens_max=50,
        metadata={"client_event_id": "c1"},
        input_tokens=12,
        cached_tokens=5,
        input_audio=Samples(91_200),
        output_text_tokens=4,
        output_audio=Samples(48_000),
        out_of_band=out_of_band,
    )


def said(*deltas: str, modality: str = "audio") -> list[ServerEvent]:
    return [ReplyText(reply_id="resp_1", item_id="item_a", modality=modality, delta=d) for d in deltas]  # type: ignore[arg-type]


HEARD: list[ServerEvent] = [
    SpeechStarted(item_id="item_u", start=Samples(4_800)),
    SpeechStopped(item_id="item_u", end=Samples(96_000)),
    InputCommitted(item_id="item_u", previous_item_id=None),
    ItemAdded(item=user(None), previous_item_id=None),
    Transcribed(item_id="item_u", text="What is that?", seconds=1.9),
]
CREATED: ServerEvent = ReplyCreated(reply=reply("accepted"))
STARTED: ServerEvent = ReplyOutputStarted(
    reply=reply("in_progress", assistant(None, "in_progress")), previous_item_id="item_u"
)
PCM: ServerEvent = ReplyAudio(reply_id="resp_1", item_id="item_a", pcm=np.zeros(480, dtype=np.int16))

SEEN_HEARD = [
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
    "conversation.item.added",
    "conversation.item.done",
    "conversation.item.input_audio_transcription.delta",
    "conversation.item.input_audio_transcription.completed",
]
SEEN_STARTED = [
    "response.created",
    "rate_limits.updated",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
]
SEEN_CLOSED = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
]
DELTA, AUDIO = "response.output_audio_transcript.delta", "response.output_audio.delta"

SCRIPTS: dict[str, tuple[TransportName, list[ServerEvent], list[str]]] = {
    "voice turn on WebSocket": (
        "websocket",
        [*HEARD, CREATED, STARTED, *said("It is"), PlayoutStarted(reply_id="resp_1"), PCM, *said(" a tree."), PCM,
         ReplyDone(reply=reply("completed", assistant("It is a tree."))), PlayoutStopped(reply_id="resp_1"),
         TurnMetrics(reply_id="resp_1", split={"ttfas": 0.7})],
        [*SEEN_HEARD, *SEEN_STARTED, DELTA, AUDIO, DELTA, AUDIO, *SEEN_CLOSED, "duplex.metrics"],
    ),
    "voice turn on WebRTC": (
        "webrtc",
        [*HEARD, CREATED, STARTED, PlayoutStarted(reply_id="resp_1"), *said("It is", " a tree."),
         ReplyDone(reply=reply("completed", assistant("It is a tree."))), PlayoutStopped(reply_id="resp_1")],
        [*SEEN_HEARD, *SEEN_STARTED, "output_audio_buffer.started", DELTA, DELTA, *SEEN_CLOSED,
         "output_audio_buffer.stopped"],
    ),
    "text in, voice out": (
        "webrtc",
        [ItemAdded(item=user("What is that?", "text"), previous_item_id=None), CREATED, STARTED,
         PlayoutStarted(reply_id="resp_1"), *said("A tree."), ReplyDone(reply=reply("completed", assistant("A tree."))),
         PlayoutStopped(reply_id="resp_1")],
        ["conversation.item.added", "conversation.item.done", *SEEN_STARTED, "output_audio_buffer.started", DELTA,
         *SEEN_CLOSED, "output_audio_buffer.stopped"],
    ),
    "text only": (
        "websocket",
        [ItemAdded(item=user("What is that?", "text"), previous_item_id=None),
         ReplyCreated(reply=reply("accepted", modality="text")),
         ReplyOutputStarted(
             reply=reply("in_progress", assistant(None, "in_progress", "text"), modality="text"),
             previous_item_id="item_u",
         ),
         *said("A ", "tree.", modality="text"),
         ReplyDone(reply=reply("completed", assistant("A tree.", modality="text"), modality="text"))],
        ["conversation.item.added", "conversation.item.done", *SEEN_STARTED, "response.output_text.delta",
         "response.output_text.delta", "response.output_text.done", "response.content_part.done",
         "response.output_item.done", "conversation.item.done", "response.done"],
    ),
    "out of band": (
        "websocket",
        [ReplyCreated(reply=reply("accepted", out_of_band=True)),
         ReplyOutputStarted(
             reply=reply("in_progress", assistant(None, "in_progress"), out_of_band=True), previous_item_id=None
         ),
         *said("A tree."), PCM, ReplyDone(reply=reply("completed", assistant("A tree."), out_of_band=True))],
        [*(seen for seen in [*SEEN_STARTED, DELTA, AUDIO, *SEEN_CLOSED] if not seen.startswith("conversation."))],
    ),
    "interrupted before anything was said": (
        "webrtc",
        [CREATED, SpeechStarted(item_id="item_v", start=Samples(0)),
         ReplyDone(reply=reply("cancelled", reason="turn_detected"))],
        ["response.created", "rate_limits.updated", "input_audio_buffer.speech_started", "response.done"],
    ),
    "interrupted while speaking": (
        "webrtc",
        [CREATED, STARTED, PlayoutStarted(reply_id="resp_1"), *said("It is a tall tree."),
         SpeechStarted(item_id="item_v", start=Samples(480_000)),
         ReplyDone(reply=reply("cancelled", assistant("It is", "incomplete"), "turn_detected")),
         PlayoutCleared(reply_id="resp_1"), ItemTruncated(item_id="item_a", audio_end=Samples(24_000))],
        [*SEEN_STARTED, "output_audio_buffer.started", DELTA, "input_audio_buffer.speech_started", *SEEN_CLOSED,
         "output_audio_buffer.cleared", "conversation.item.truncated"],
    ),
    "failed": (
        "websocket",
        [CREATED, STARTED, *said("It"),
         Failure(code="stage_failed", message="The voice stopped.", kind="server_error"),
         ReplyDone(reply=reply("failed", assistant("It", "incomplete"), "stage_failed", error="The voice stopped."))],
        [*SEEN_STARTED, DELTA, "error", *SEEN_CLOSED],
    ),
    "incomplete": (
        "websocket",
        [CREATED, STARTED, *said("It is"), PCM,
         ReplyDone(reply=reply("incomplete", assistant("It is", "incomplete"), "max_output_tokens"))],
        [*SEEN_STARTED, DELTA, AUDIO, *SEEN_CLOSED],
    ),
    "all else": (
        "websocket",
        [SessionCreated(config=CONFIG), SessionUpdated(config=CONFIG), InputCleared(), ItemRetrieved(item=user("Hi.")),
         ItemRetrieved(item=ItemView(id="item_s", role="system", modality="text", text="Hi.", status="completed")),
         ItemDeleted(item_id="item_u"), TranscriptionFailed(item_id="item_u", message="The stage is not there."),
         Failure(code="invalid_value", message="No.", param="session.type", event_id="e1")],
        ["session.created", "conversation.created", "session.updated", "input_audio_buffer.cleared",
         "conversation.item.retrieved", "conversation.item.retrieved", "conversation.item.deleted",
         "conversation.item.input_audio_transcription.failed", "error"],
    ),
}  # fmt: skip


def run(transport: TransportName, script: list[ServerEvent]) -> list[dict[str, Any]]:
    wire = WireEncoder(session_id="sess_1", conversation_id="conv_1", transport=transport, ring_events_max=100)
    return [shown for event in script for shown in wire.encode(event)]


@pytest.fixture(params=list(SCRIPTS))
def script(request: pytest.FixtureRequest) -> tuple[list[dict[str, Any]], list[str]]:
    transport, events, seen = SCRIPTS[request.param]
    return run(transport, events), seen


def of(name: str) -> dict[str, dict[str, Any]]:
    """Return a script's events by type (the last of each)."""
    transport, events, _ = SCRIPTS[name]
    return {shown["type"]: shown for shown in run(transport, events)}


def test_the_order_is_the_one_that_clients_expect(script: tuple[list[dict[str, Any]], list[str]]) -> None:
    shown, seen = script
    assert [event["type"] for event in shown] == seen


def unnamed(model: BaseModel, path: str = "") -> set[str]:
    """Return the dotted paths of fields that the client's types do not have."""
    found = {f"{path}{name}" for name in model.model_extra or {}}
    for name, value in model.__dict__.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, BaseModel):
                found |= unnamed(part, f"{path}{name}.")
    return found


def test_the_client_library_parses_every_event(script: tuple[list[dict[str, Any]], list[str]]) -> None:
    assert openai.__version__ == "3.57.0", "read the types again before moving to another version"
    for event in script[0]:
        if event["type"].startswith("duplex."):
            continue
        parsed = SERVER_EVENT.validate_python(event, strict=True)
        assert parsed.type == event["type"]
        assert unnamed(parsed) <= EXTRAS, event["type"]


def test_ids_are_unique_and_deltas_agree(script: tuple[list[dict[str, Any]], list[str]]) -> None:
    shown, _ = script
    assert len({event["event_id"] for event in shown}) == len(shown)
    for event in shown:
        assert event.get("response_id", "resp_1") == "resp_1"
        if event["type"].startswith("response.") and "item_id" in event:
            assert (event["item_id"], event["output_index"], event["content_index"]) == ("item_a", 0, 0)
    deltas = "".join(e["delta"] for e in shown if e["type"] in (DELTA, "response.output_text.delta"))
    for event in shown:
        if event["type"] == "response.output_audio_transcript.done":
            assert event["transcript"] == deltas
        if event["type"] == "response.output_text.done":
            assert event["text"] == deltas


def test_a_finished_response_is_complete() -> None:
    assert of("voice turn on WebSocket")["response.done"]["response"] == {
        "id": "resp_1",
        "object": "realtime.response",
        "status": "completed",
        "status_details": None,
        "output": [
            {
                "id": "item_a",
                "object": "realtime.item",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_audio", "transcript": "It is a tree."}],
            }
        ],
        "conversation_id": "conv_1",
        "output_modalities": ["audio"],
        "max_output_tokens": 50,
        "audio": {"output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "default"}},
        "usage": {
            "total_tokens": 12 + 19 + 4 + 20,
            "input_tokens": 12 + 19,
            "output_tokens": 4 + 20,
            "input_token_details": {
                "text_tokens": 12,
                "audio_tokens": 19,
                "image_tokens": 0,
                "cached_tokens": 5,
                "cached_tokens_details": {"text_tokens": 5, "audio_tokens": 0, "image_tokens": 0},
            },
            "output_token_details": {"text_tokens": 4, "audio_tokens": 20},
            "duplex": {"output_audio_ms": 1000, "input_audio_ms": 1900, "input_estimated": False},
        },
        "metadata": {"client_event_id": "c1"},
    }


def test_a_response_out_of_band_is_of_no_conversation() -> None:
    shown = of("out of band")
    for kind in ("response.created", "response.done"):
        assert shown[kind]["response"]["conversation_id"] is None
    assert shown["response.done"]["response"]["output"][0]["content"][0]["transcript"] == "A tree."


def test_a_response_that_has_begun_shows_no_result() -> None:
    begun = of("voice turn on WebSocket")["response.created"]["response"]
    assert (begun["status"], begun["output"], begun["usage"], begun["status_details"]) == (
        "in_progress",
        [],
        None,
        None,
    )


@pytest.mark.parametrize(
    ("name", "details"),
    [
        ("interrupted before anything was said", {"type": "cancelled", "reason": "turn_detected"}),
        ("interrupted while speaking", {"type": "cancelled", "reason": "turn_detected"}),
        ("incomplete", {"type": "incomplete", "reason": "max_output_tokens"}),
        (
            "failed",
            {
                "type": "failed",
                "error": {"type": "server_error", "code": "stage_failed", "message": "The voice stopped."},
            },
        ),
    ],
)
def test_why_a_response_ended(name: str, details: dict[str, Any]) -> None:
    assert of(name)["response.done"]["response"]["status_details"] == details


def test_parts_and_items_name_the_same_content_differently() -> None:
    voice, text = of("voice turn on WebRTC"), of("text only")
    assert voice["response.content_part.added"]["part"] == {"type": "audio", "transcript": ""}
    assert voice["response.content_part.done"]["part"] == {"type": "audio", "transcript": "It is a tree."}
    assert text["response.content_part.done"]["part"] == {"type": "text", "text": "A tree."}
    assert text["response.output_item.done"]["item"]["content"] == [{"type": "output_text", "text": "A tree."}]


def test_the_item_of_a_cut_reply_holds_what_was_heard() -> None:
    cut = of("interrupted while speaking")
    assert cut["response.output_audio_transcript.done"]["transcript"] == "It is a tall tree."
    assert cut["conversation.item.done"]["item"]["content"] == [{"type": "output_audio", "transcript": "It is"}]
    assert cut["conversation.item.done"]["item"]["status"] == "incomplete"
    assert cut["conversation.item.done"]["previous_item_id"] == "item_u"


def test_an_item_begins_empty() -> None:
    added = of("text only")["response.output_item.added"]["item"]
    assert (added["content"], added["status"]) == ([], "in_progress")


def test_positions_are_whole_milliseconds() -> None:
    heard = of("voice turn on WebSocket")
    assert heard["input_audio_buffer.speech_started"]["audio_start_ms"] == 100
    assert heard["input_audio_buffer.speech_stopped"]["audio_end_ms"] == 2000
    assert of("interrupted while speaking")["conversation.item.truncated"]["audio_end_ms"] == 500


def test_errors_name_the_event_and_the_field() -> None:
    assert of("all else")["error"]["error"] == {
        "type": "invalid_request_error",
        "code": "invalid_value",
        "message": "No.",
        "param": "session.type",
        "event_id": "e1",
    }
