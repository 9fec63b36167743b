"""Fields of the protocol's former shape are refused by name, and fields of the present shape in the former's words as well."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duplex.protocol import SessionRejected, WireProfile, decode, initial
from duplex.protocol.former_shape import RESPONSE, SESSION
from duplex.session.messages import Configure, CreateReply, Rejected
from duplex.units import Samples

pytestmark = pytest.mark.unit
PROFILE = WireProfile(model="sim", voices=("low", "high"))
CONFIG = initial(PROFILE, session_id="sess_1")


def read(kind: str, **fields: Any) -> Any:
    text = json.dumps({"type": kind, "event_id": "mine", **fields})
    return decode(text, CONFIG, transport="websocket", profile=PROFILE, arrived=Samples(0))


def refused(decoded: Any) -> tuple[str, str | None]:
    assert isinstance(decoded, Rejected), decoded
    assert decoded.event_id == "mine"
    return decoded.code, decoded.param


@pytest.mark.parametrize("name", SESSION)
@pytest.mark.parametrize("value", [None, "alloy"])
def test_a_session_that_is_configured_as_it_once_was_is_told_so(name: str, value: str | None) -> None:
    decoded = read("session.update", session={"instructions": "Hi.", name: value})
    assert refused(decoded) == ("unsupported", f"session.{name}")
    assert f"'session.{SESSION[name]}'" in decoded.message
    with pytest.raises(SessionRejected) as at_the_opening:
        initial(PROFILE, session_id="s", session={name: value})
    assert at_the_opening.value.param == f"session.{name}"


@pytest.mark.parametrize("name", RESPONSE)
def test_so_is_a_response(name: str) -> None:
    decoded = read("response.create", response={name: "x"})
    assert refused(decoded) == ("unsupported", f"response.{name}")
    assert f"'response.{RESPONSE[name]}'" in decoded.message


def test_a_client_that_says_it_both_ways_is_taken_at_its_present_word() -> None:
    """hypha-dao/hypha-web#2345 sends both, for servers of either kind."""
    created = read("response.create", response={"output_modalities": ["audio"], "modalities": ["audio", "text"]})
    assert isinstance(created, CreateReply) and created.modalities == ("audio",)
    both = {"turn_detection": {"type": "server_vad"}, "audio": {"input": {"turn_detection": None}}}
    updated = read("session.update", session=both)
    assert isinstance(updated, Configure) and updated.config.turn_detection is None


def test_fields_that_only_lose_an_effect_are_ignored() -> None:
    assert isinstance(read("session.update", session={"temperature": 0.8}), Configure)


@pytest.mark.parametrize(
    ("session", "code", "param"),
    [
        # TEN-framework/ten-framework#2261
        ({"audio": {"input": {"format": "pcm16"}}}, "invalid_type", "session.audio.input.format"),
        ({"audio": {"output": {"format": "g711_ulaw"}}}, "invalid_type", "session.audio.output.format"),
        # openai/openai-agents-python#4616
        ({"audio": {"input": {"turn_detection": {"type": "none"}}}}, "invalid_value", "session.audio.input.turn_detection.type"),
        ({"output_modalities": ["audio", "text"]}, "invalid_value", "session.output_modalities"),
        ({"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}}, "invalid_value", "session.audio.input.format.rate"),
    ],
)  # fmt: skip
def test_former_values_in_present_places_are_named(session: dict[str, Any], code: str, param: str) -> None:
    assert refused(read("session.update", session=session)) == (code, param)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        # run-llama/openai_realtime_client#13
        ({}, "audio_end_ms"),
        ({"audio_end_ms": None}, "audio_end_ms"),
        ({"audio_end_ms": -20}, "audio_end_ms"),
        ({"audio_end_ms": 100, "content_index": "0"}, "content_index"),
    ],
)
def test_a_truncate_without_its_place_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    assert refused(read("conversation.item.truncate", item_id="i", **fields))[1] == param
