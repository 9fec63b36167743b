"""Whatever a client sends becomes one message, and nothing that it sends raises."""

from __future__ import annotations

import base64
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex.config import ServerSettings
from duplex.payloads import Toolset
from duplex.protocol import AppendAudio, Decoded, TransportName, WireProfile, decode, initial
from duplex.protocol.strict_json import DEFAULT, bounds_of
from duplex.session.messages import (
    CancelReply,
    ClearInput,
    ClearOutput,
    CommitInput,
    Configure,
    CreateItem,
    CreateReply,
    DeleteItem,
    ItemReference,
    PlaybackReport,
    Rejected,
    RetrieveItem,
    TruncateItem,
)
from duplex.units import Samples

pytestmark = pytest.mark.unit

PROFILE = WireProfile(model="sim", voices=("low", "high"))
CONFIG = initial(PROFILE, session_id="sess_1")
ARRIVED = Samples(4800)


def read(text: str | bytes, transport: TransportName = "websocket", counts: Counter[str] | None = None) -> Decoded:
    return decode(text, CONFIG, transport=transport, profile=PROFILE, arrived=ARRIVED, unknown_fields=counts)


def event(kind: str, transport: TransportName = "websocket", **fields: Any) -> Decoded:
    return read(json.dumps({"type": kind, "event_id": "e1", **fields}), transport)


def rejected(decoded: Decoded) -> Rejected:
    assert isinstance(decoded, Rejected), decoded
    assert decoded.message
    return decoded


def test_each_event_becomes_its_message() -> None:
    assert event("input_audio_buffer.commit") == CommitInput(arrived=ARRIVED, event_id="e1")
    assert event("input_audio_buffer.clear") == ClearInput(arrived=ARRIVED, event_id="e1")
    assert event("conversation.item.retrieve", item_id="i") == RetrieveItem(item_id="i", event_id="e1")
    assert event("conversation.item.delete", item_id="i") == DeleteItem(item_id="i", event_id="e1")
    assert event("conversation.item.truncate", item_id="i", audio_end_ms=20) == TruncateItem(
        item_id="i", content_index=0, audio_end=Samples(960), event_id="e1"
    )
    assert event("response.cancel") == CancelReply(event_id="e1")
    assert event("response.cancel", response_id="r") == CancelReply(reply_id="r", event_id="e1")
    assert event("output_audio_buffer.clear", "webrtc") == ClearOutput(event_id="e1")
    assert event("duplex.playback.report", response_id="r", played_ms=1.5) == PlaybackReport(
        reply="r", played=Samples(72), event_id="e1"
    )
    updated = event("session.update", session={"type": "realtime", "instructions": "Be brief."})
    assert isinstance(updated, Configure)
    assert updated.config.instructions == "Be brief."


def test_audio_is_decoded() -> None:
    pcm = bytes(range(10))
    assert event("input_audio_buffer.append", audio=base64.b64encode(pcm).decode()) == AppendAudio(
        pcm=pcm, event_id="e1"
    )


@pytest.mark.parametrize(
    ("audio", "code"),
    [
        ("AAA", "invalid_audio"),
        ("AA==AA==", "invalid_audio"),
        ("AAA\n", "invalid_audio"),
        ("AA-_", "invalid_audio"),
        ("é" * 4, "invalid_audio"),
        ("", "invalid_audio"),
        (base64.b64encode(b"\0\0\0").decode(), "invalid_audio"),
        (7, "invalid_type"),
        (None, "invalid_type"),
    ],
)
def test_bad_audio_is_refused(audio: object, code: str) -> None:
    refusal = rejected(event("input_audio_buffer.append", audio=audio))
    assert (refusal.code, refusal.param, refusal.event_id) == (code, "audio", "e1")


def test_audio_is_bounded() -> None:
    profile = WireProfile(append_bytes_max=8)
    text = json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(bytes(10)).decode()})
    refusal = decode(text, CONFIG, transport="websocket", profile=profile, arrived=ARRIVED)
    assert rejected(refusal).code == "string_above_max_length"


def test_events_of_the_other_transport_are_refused() -> None:
    assert rejected(event("input_audio_buffer.append", "webrtc", audio="AAAA")).code == "unsupported_on_transport"
    assert rejected(event("output_audio_buffer.clear", "websocket")).code == "unsupported_on_transport"


UNREADABLE: list[tuple[str | bytes, str]] = [
    ("", "invalid_json"),
    ("[]", "invalid_type"),
    ('"x"', "invalid_type"),
    ("5", "invalid_type"),
    ("null", "invalid_type"),
    ("true", "invalid_type"),
    ("{}", "missing_required_parameter"),
    ('{"type":5}', "invalid_type"),
    ('{"type":null}', "missing_required_parameter"),
    ('{"type":[]}', "invalid_type"),
    ('{"type":"no.such"}', "unknown_event_type"),
    ('{"type":"session.update"}', "missing_required_parameter"),
    ('{"type":"session.update","session":[]}', "invalid_type"),
    ('{"type":"session.update","session":{"type":"weird"}}', "invalid_value"),
    ('{"type":"response.cancel","event_id":5}', "invalid_type"),
    ('{"type":"response.cancel"', "invalid_json"),
    ('{"type":"response.cancel",}', "invalid_json"),
    ('{"type":"response.cancel","x":NaN}', "invalid_json"),
    ('{"type":"response.cancel","x":-Infinity}', "invalid_json"),
    ('{"type":"response.cancel","x":1e999}', "invalid_json"),
    ('{"type":"response.cancel","x":' + "9" * 5000 + "}", "invalid_json"),
    ('{"type":"response.cancel","x":"\\ud800"}', "invalid_json"),
    ('{"type":"response.cancel","type":"response.create"}', "duplicate_key"),
    ('{"type":"response.cancel","x":{"a":1,"a":2}}', "duplicate_key"),
    ('{"type":"response.cancel","x":' + "[" * 200 + "]" * 200 + "}", "nesting_too_deep"),
    ('{"type":"response.cancel","x":' + '{"a":' * 200 + "1" + "}" * 200 + "}", "nesting_too_deep"),
    ("[" * 9_000, "nesting_too_deep"),
    ("[" * 100_000, "event_too_large"),
    ('{"type":"response.cancel","x":[' + "[]," * 20_000 + "[]]}", "event_too_large"),
    ('{"type":"conversation.item.truncate","item_id":"i","audio_end_ms":-1}', "invalid_value"),
    ('{"type":"conversation.item.truncate","item_id":"i","audio_end_ms":1e3}', "invalid_type"),
    ('{"type":"conversation.item.truncate","item_id":"i","audio_end_ms":' + "9" * 400 + "}", "invalid_value"),
    ('{"type":"conversation.item.delete","item_id":""}', "invalid_value"),
    (b"\xff\xfe", "invalid_utf8"),
    (b'{"type":"response.cancel"}', "binary_event"),
    ('{"type":"response.cancel","x":[' + "[],[]," * (DEFAULT.structured_chars_max // 5) + "[]]}", "event_too_large"),
]


@pytest.mark.parametrize(("text", "code"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_cannot_be_read_is_one_refusal(text: str | bytes, code: str) -> None:
    refusal = rejected(read(text))
    assert refusal.code == code
    assert len(refusal.message) < 300


@pytest.mark.parametrize("text", [t for t, _ in UNREADABLE if t[:1] == "{" and "event_id" not in t], ids=str)
def test_the_refusal_names_the_event_where_its_id_can_be_read(text: str) -> None:
    assert rejected(read('{"event_id": "mine",' + text[1:])).event_id == "mine"


@pytest.mark.parametrize("text", [b'{"event_id":"mine"}', b'{"event_id":"mine", "x":"\xff"}'])
def test_the_refusal_names_a_binary_event_too(text: bytes) -> None:
    assert rejected(read(text)).event_id == "mine"


def test_an_endless_event_id_is_not_echoed() -> None:
    assert rejected(read(json.dumps({"type": "x", "event_id": "e" * 600}))).event_id is None


@pytest.mark.parametrize(
    ("bounds", "x", "says"),
    [
        ({"event_depth_max": 8}, [[[[[[[[1]]]]]]]], "deeper than 8 levels"),
        ({"event_brackets_max": 100}, [[]] * 100, "at most 100 brackets"),
        ({"event_structured_chars_max": 1024, "event_commas_max": 8}, ["a" * 200] * 10, "larger than 1024 characters"),
    ],
)
def test_how_much_structure_is_taken_is_configured(bounds: dict[str, int], x: list[Any], says: str) -> None:
    text = json.dumps({"type": "response.cancel", "x": x})
    profile = WireProfile(json=bounds_of(ServerSettings(**bounds)))
    refusal = rejected(decode(text, CONFIG, transport="websocket", profile=profile, arrived=ARRIVED))
    assert says in refusal.message
    assert not isinstance(read(text), Rejected)


def test_large_audio_is_read_although_large_structure_is_not() -> None:
    audio = base64.b64encode(bytes(2 * DEFAULT.structured_chars_max)).decode()
    assert isinstance(event("input_audio_buffer.append", audio=audio), AppendAudio)


def test_unknown_fields_are_ignored_and_counted() -> None:
    counts: Counter[str] = Counter()
    text = {
        "type": "session.update",
        "new": 1,
        "session": {"fresh": {"a": 1}, "audio": {"output": {"speed": 1.25, "loudness": 3}}},
    }
    updated = read(json.dumps(text), counts=counts)
    assert isinstance(updated, Configure)
    assert updated.config.speed == 1.25
    assert counts == {"session.update": 3}


def message(role: str, *content: dict[str, Any], **fields: Any) -> Decoded:
    item = {"type": "message", "role": role, "content": list(content)} | fields
    return event("conversation.item.create", item=item, previous_item_id="root")


def test_text_items_enter_the_conversation() -> None:
    made = message("user", {"type": "input_text", "text": "One."}, {"type": "input_text", "text": "Two."}, id="mine")
    assert made == CreateItem(role="user", text="One.\nTwo.", item_id="mine", previous_item_id="root", event_id="e1")
    spoken = message("assistant", {"type": "output_audio", "transcript": "Hello."})
    assert isinstance(spoken, CreateItem)
    assert (spoken.role, spoken.text) == ("assistant", "Hello.")


@pytest.mark.parametrize(
    ("made", "code", "param"),
    [
        (message("user", {"type": "input_image", "image_url": "data:"}), "unsupported", "item.content.0.type"),
        (message("user", {"type": "input_audio", "audio": "AAA"}), "invalid_audio", "item.content.0.audio"),
        (message("user", {"type": "output_text", "text": "x"}), "unsupported", "item.content.0.type"),
        (message("user", {"type": "input_text"}), "missing_required_parameter", "item.content.0.text"),
        (message("user", {"type": "input_text", "text": 5}), "invalid_type", "item.content.0.text"),
        (message("user"), "missing_required_parameter", "item.content"),
        (message("narrator", {"type": "input_text", "text": "x"}), "invalid_value", "item.role"),
        (message("user", {"type": "input_text", "text": "x" * 100_001}), "string_above_max_length", "item.content"),
        (
            event("conversation.item.create", item={"type": "function_call_output", "call_id": "c", "output": "1"}),
            "unsupported",
            "item.type",
        ),
        (event("conversation.item.create"), "missing_required_parameter", "item"),
        (event("duplex.session.resume"), "missing_required_parameter", "token"),
    ],
)
def test_items_that_are_not_taken(made: Decoded, code: str, param: str) -> None:
    refusal = rejected(made)
    assert (refusal.code, refusal.param, refusal.event_id) == (code, param, "e1")


def test_response_create_carries_its_choices() -> None:
    assert event("response.create") == CreateReply(event_id="e1")
    asked = {
        "instructions": "Sing.",
        "output_modalities": ["text"],
        "max_output_tokens": 9,
        "metadata": {"client_event_id": "c1"},
        "conversation": "auto",
        "tools": [],
        "audio": {"output": {"voice": "alloy", "format": {"type": "audio/pcm", "rate": 24000}}},
    }
    assert event("response.create", response=asked) == CreateReply(
        instructions="Sing.",
        modalities=("text",),
        tokens_max=9,
        metadata={"client_event_id": "c1"},
        voice="low",
        toolset=Toolset(),
        event_id="e1",
    )
    assert event("response.create", response={"max_output_tokens": "inf", "temperature": 0.2}) == CreateReply(
        tokens_max=0, event_id="e1"
    )


def test_a_response_out_of_band_has_an_input_of_its_own() -> None:
    said = {"type": "message", "role": "user", "id": "mine", "content": [{"type": "input_text", "text": "Hello."}]}
    asked = {"conversation": "none", "input": [said, {"type": "item_reference", "id": "item_1"}]}
    assert event("response.create", response=asked) == CreateReply(
        input=(CreateItem(role="user", text="Hello.", item_id="mine"), ItemReference(item_id="item_1")),
        out_of_band=True,
        event_id="e1",
    )
    assert event("response.create", response={"input": []}) == CreateReply(input=(), event_id="e1")


_PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}


@pytest.mark.parametrize(
    ("response", "code", "param"),
    [
        ({"conversation": "conv_2"}, "unsupported", "response.conversation"),
        ({"input": {}}, "invalid_type", "response.input"),
        ({"input": [{"id": "x"}]}, "missing_required_parameter", "response.input.0.type"),
        ({"input": [{"type": "message"}]}, "missing_required_parameter", "response.input.0.role"),
        ({"input": [{"type": "item_reference"}]}, "missing_required_parameter", "response.input.0.id"),
        (
            {"input": [{"type": "message", "role": "user", "content": [_PICTURE]}]},
            "unsupported",
            "response.input.0.content.0.type",
        ),
        ({"tools": [{"type": "function", "name": "f"}]}, "unsupported", "response.tools"),
        ({"prompt": {"id": "p"}}, "unsupported", "response.prompt"),
        ({"tool_choice": "always"}, "invalid_value", "response.tool_choice"),
        ({"output_modalities": ["text", "audio"]}, "invalid_value", "response.output_modalities"),
        ({"max_output_tokens": 0}, "invalid_value", "response.max_output_tokens"),
        ({"max_output_tokens": True}, "invalid_value", "response.max_output_tokens"),
        ({"metadata": {"a": 1}}, "invalid_type", "response.metadata.a"),
        ({"metadata": {str(i): "" for i in range(17)}}, "string_above_max_length", "response.metadata"),
        ({"audio": {"output": {"voice": "nobody"}}}, "invalid_value", "response.audio.output.voice"),
        ({"audio": {"output": {"format": {"type": "audio/pcmu"}}}}, "unsupported", "response.audio.output.format.type"),
        ({"instructions": "x" * 100_001}, "string_above_max_length", "response.instructions"),
    ],
)
def test_responses_that_are_not_made(response: dict[str, Any], code: str, param: str) -> None:
    refusal = rejected(event("response.create", response=response))
    assert (refusal.code, refusal.param) == (code, param)


@pytest.mark.parametrize(
    "session", [1, [], "x", {"type": "realtime", "audio": 5}, {"type": "realtime", "audio": {"input": []}}]
)
def test_an_object_that_is_none_is_told_in_words_of_the_wire(session: Any) -> None:
    refusal = rejected(event("session.update", session=session))
    assert refusal.code == "invalid_type"
    assert refusal.message.endswith("should be an object.")


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_KINDS = [
    "session.update", "input_audio_buffer.append", "conversation.item.create", "conversation.item.truncate",
    "response.create", "response.cancel", "duplex.playback.report",
]  # fmt: skip
_FIELDS = ["session", "audio", "item", "item_id", "audio_end_ms", "response", "response_id", "played_ms", "event_id"]


@given(
    kind=st.sampled_from(_KINDS),
    fields=st.dictionaries(st.sampled_from(_FIELDS), _json, max_size=4),
    transport=st.sampled_from(["webrtc", "websocket"]),
)
@settings(max_examples=300, deadline=None)
def test_any_fields_give_a_message(kind: str, fields: dict[str, Any], transport: TransportName) -> None:
    decoded = read(json.dumps({"type": kind, **fields}), transport)
    assert isinstance(decoded, Decoded)


@given(st.text() | st.binary())
@settings(max_examples=300, deadline=None)
def test_any_frame_gives_a_refusal(frame: str | bytes) -> None:
    assert isinstance(read(frame), Rejected)
