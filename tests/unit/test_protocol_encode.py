"""The encoder alone: numbering, the ring, and what it leaves out. Shapes and order are in tests/protocol."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

from duplex.protocol import TransportName, WireEncoder, WireProfile, initial, to_json
from duplex.protocol.event_ids import event_id_of, sequence_of
from duplex.protocol.ring import AudioPlace, EventRing
from duplex.session.events import (
    ContextTrimmed,
    Failure,
    ItemView,
    PlayoutCleared,
    PlayoutStarted,
    PlayoutStopped,
    ReplyAudio,
    ReplyCreated,
    ReplyDone,
    ReplyOutputStarted,
    ReplyText,
    ReplyView,
    SessionCreated,
    SessionEnding,
    SessionUpdated,
    Transcribed,
    TurnLimited,
)
from duplex.units import RtpTicks, Samples

pytestmark = pytest.mark.unit

FAILURE = Failure(code="item_not_found", message="m")
ITEM = ItemView(id="item_1", role="assistant", modality="audio", text=None, status="in_progress")


def encoder(transport: TransportName = "websocket", ring: int = 10) -> WireEncoder:
    return WireEncoder(session_id="sess_1", conversation_id="conv_1", transport=transport, ring_events_max=ring)


def open_reply(wire: WireEncoder) -> None:
    wire.encode(ReplyCreated(reply=ReplyView(id="resp_1", item=None, status="accepted")))
    wire.encode(
        ReplyOutputStarted(reply=ReplyView(id="resp_1", item=ITEM, status="in_progress"), previous_item_id=None)
    )


def audio(*values: int) -> ReplyAudio:
    return ReplyAudio(reply_id="resp_1", item_id="item_1", pcm=np.array(values, dtype=np.int16))


def test_event_ids_carry_a_growing_sequence_over_all_events() -> None:
    wire = encoder()
    config = initial(WireProfile(), session_id="sess_1")
    ids = [e["event_id"] for event in (SessionCreated(config=config), FAILURE) for e in wire.encode(event)]
    assert ids == [f"event_{n:012d}_sess_1" for n in (1, 2, 3)]
    assert wire.sequence == 3


def test_audio_is_little_endian_pcm_in_base64() -> None:
    wire = encoder()
    open_reply(wire)
    (event,) = wire.encode(audio(1, -2, 300))
    assert base64.b64decode(event["delta"]) == b"\x01\x00\xfe\xff\x2c\x01"


def test_deltas_outside_the_replys_life_are_left_out_and_counted() -> None:
    wire = encoder()
    assert wire.encode(audio(1)) == []
    open_reply(wire)
    wire.encode(ReplyDone(reply=ReplyView(id="resp_1", item=ITEM, status="completed")))
    assert wire.encode(audio(1)) == []
    assert wire.encode(ReplyText(reply_id="resp_1", item_id="item_1", modality="audio", delta="late")) == []
    assert wire.late_deltas == 3


@pytest.mark.parametrize("event", [PlayoutStarted, PlayoutStopped, PlayoutCleared])
def test_the_output_buffer_shows_on_webrtc_only(event: type[PlayoutStarted]) -> None:
    assert encoder("websocket").encode(event(reply_id="r")) == []
    (shown,) = encoder("webrtc").encode(event(reply_id="r"))
    assert shown["type"] == f"output_audio_buffer.{event.__name__.removeprefix('Playout').lower()}"
    assert "duplex" not in shown


def test_the_start_of_a_reply_names_its_rtp_timestamp_where_there_is_one() -> None:
    (shown,) = encoder("webrtc").encode(PlayoutStarted(reply_id="r", rtp_start=RtpTicks(0)))
    assert (shown["response_id"], shown["duplex"]) == ("r", {"rtp_timestamp": 0})


def test_a_reply_that_is_not_open_cannot_end() -> None:
    with pytest.raises(KeyError):
        encoder().encode(ReplyDone(reply=ReplyView(id="resp_1", item=None, status="completed")))


def test_what_the_protocol_has_no_event_for_is_ours() -> None:
    wire = encoder("webrtc")
    events = [
        TurnLimited(item_id="item_1", audio=Samples(48_000 * 30)),
        ContextTrimmed(first_item_id="item_9", items=8),
        SessionEnding(seconds_left=59.98),
    ]
    shown = [{k: v for k, v in e.items() if k != "event_id"} for event in events for e in wire.encode(event)]
    assert shown == [
        {"type": "duplex.turn.limited", "item_id": "item_1", "audio_ms": 30_000},
        {"type": "duplex.context.trimmed", "first_item_id": "item_9", "items": 8},
        {"type": "duplex.session.ending", "reason": "max_length", "seconds_left": 60.0},
    ]


@pytest.mark.parametrize(
    ("transport", "asked", "told"),
    [("webrtc", None, True), ("websocket", None, False), ("websocket", True, True), ("webrtc", False, False)],
)
def test_our_own_events_go_where_they_are_asked_for_and_else_not_over_websocket(
    transport: TransportName, asked: bool | None, told: bool
) -> None:
    wire = encoder(transport)
    session = {"type": "realtime"} | ({} if asked is None else {"duplex": {"events": asked}})
    wire.encode(SessionCreated(config=initial(WireProfile(), session_id="sess_1", session=session)))
    assert bool(wire.encode(SessionEnding(seconds_left=60.0))) is told


def test_json_is_ascii_whatever_a_model_wrote() -> None:
    text = to_json(encoder().encode(Transcribed(item_id="i", text="naïve \ud83d <img>", seconds=1.0))[0])
    assert text.isascii()
    assert json.loads(text)["delta"] == "naïve \ud83d <img>"


def test_nothing_said_gives_no_delta() -> None:
    (completed,) = encoder().encode(Transcribed(item_id="i", text="", seconds=1.0))
    assert (completed["type"].rsplit(".", 1)[1], completed["transcript"]) == ("completed", "")


def test_the_ring_knows_what_it_has_and_what_is_gone() -> None:
    wire = encoder(ring=3)
    for _ in range(5):
        wire.encode(FAILURE)
    kept = [entry.event for entry in wire.ring.since(2) or []]
    assert [event["event_id"] for event in kept if event] == [event_id_of(n, "sess_1") for n in (3, 4, 5)]
    assert wire.ring.since(5) == []
    assert wire.ring.since(1) is None
    assert wire.ring.since(6) is None
    assert (wire.ring.stats().events, wire.ring.stats().first) == (3, 3)


@pytest.mark.parametrize(
    ("transport", "resume", "kept"), [("websocket", False, 0), ("websocket", True, 2), ("webrtc", False, 2)]
)
def test_events_are_kept_for_who_may_come_back(transport: TransportName, resume: bool, kept: int) -> None:
    wire = encoder(transport)
    wire.encode(FAILURE)
    session = {"type": "realtime", "duplex": {"resume": resume}}
    wire.encode(SessionUpdated(config=initial(WireProfile(), session_id="sess_1", session=session)))
    assert len(wire.ring.since(wire.sequence - kept) or []) == kept
    assert (wire.ring.since(0) is None) is (kept == 0)
    assert [event["event_id"] for event in wire.encode(FAILURE)] == [event_id_of(3, "sess_1")]


def test_the_ring_is_bounded_by_its_text_too() -> None:
    ring = EventRing(1000, bytes_max=10)
    for n in range(1, 6):
        ring.add(n, {}, 5)
    assert (ring.stats().events, ring.stats().chars) == (2, 10)


def test_audio_gives_way_alone_and_its_place_stays_known() -> None:
    ring = EventRing(6, bytes_max=10, audio_bytes_max=10)
    for n in range(1, 7):
        place = AudioPlace(reply_id="r", item_id="i", begin=Samples(n), length=Samples(1))
        ring.add(n, {"n": n}, 4, place if n % 2 else None)
    kept = ring.since(2) or []
    assert [(entry.sequence, entry.event is not None) for entry in kept] == [(3, True), (4, True), (5, True), (6, True)]
    assert ring.since(0) is None, "events are dropped whole"
    ring.add(7, {}, 4, AudioPlace(reply_id="r", item_id="i", begin=Samples(7), length=Samples(1)))
    kept = ring.since(2) or []
    assert [entry.sequence for entry in kept if entry.event is None] == [3]
    assert [entry.audio.begin for entry in kept if entry.audio is not None] == [3, 5, 7]
    for n in range(8, 20):
        ring.add(n, {}, 0)
    assert (ring.stats().events, ring.stats().chars) == (6, 0)


@pytest.mark.parametrize(
    "event_id", ["", "event_1_s", "event_000000000007_other", "event_00000000000x_s", "7", "event_000000000007_"]
)
def test_an_id_that_is_not_the_sessions_has_no_number(event_id: str) -> None:
    assert sequence_of(event_id, "s") is None
    assert sequence_of(event_id_of(7, "s"), "s") == 7


def test_an_empty_ring_has_missed_nothing() -> None:
    assert EventRing(1).since(0) == []
