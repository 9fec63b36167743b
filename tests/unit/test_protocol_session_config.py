"""Defaults, merging and refusals of the session object."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Literal

import pytest

from duplex.config import Settings
from duplex.protocol import RemoteProtocolError, SessionRejected, WireProfile, initial
from duplex.protocol.session_config import merge
from duplex.protocol.wire_session import SessionUpdate, read
from duplex.session.config import Greeting, SessionConfig, Truncation, TurnDetection
from duplex.session.turns import limits_for
from duplex.units import samples_from_ms

pytestmark = pytest.mark.unit

PROFILE = WireProfile(model="sim", voices=("low", "high"), lead_ms=4000, on_onset="hold")


def update(config: SessionConfig, session: dict[str, Any]) -> SessionConfig:
    return merge(config, read(SessionUpdate, session, "session."), PROFILE)


def start(session: dict[str, Any] | None = None) -> SessionConfig:
    return initial(PROFILE, session_id="sess_1", session=session, expires_at=7)


def detection(**fields: Any) -> dict[str, Any]:
    return {"audio": {"input": {"turn_detection": fields}}}


def test_defaults_are_resolved() -> None:
    config = start()
    assert config == SessionConfig(voice="low", on_onset="hold", lead_ms=4000, wire=config.wire)
    assert config.wire == {
        "type": "realtime",
        "object": "realtime.session",
        "id": "sess_1",
        "model": "sim",
        "output_modalities": ["audio"],
        "instructions": "",
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "max_output_tokens": "inf",
        "tracing": None,
        "truncation": "auto",
        "prompt": None,
        "expires_at": 7,
        "include": [],
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "noise_reduction": None,
                "transcription": {"model": "sim"},
                "turn_detection": {
                    "type": "semantic_vad",
                    "eagerness": "auto",
                    "create_response": True,
                    "interrupt_response": True,
                },
            },
            "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "low", "speed": 1.0},
        },
        "duplex": {
            "lead_ms": 4000,
            "on_onset": "hold",
            "echo_cancellation": False,
            "resume": False,
            "events": None,
            "greeting": "none",
        },  # fmt: skip
    }


def test_absent_keeps_and_empty_clears() -> None:
    config = start({"instructions": "Be brief.", "audio": {"output": {"speed": 1.5, "voice": "high"}}})
    kept = update(config, {"audio": {"output": {"speed": 0.5}}, "max_output_tokens": 20})
    assert (kept.instructions, kept.voice, kept.speed, kept.tokens_max) == ("Be brief.", "high", 0.5, 20)
    cleared = update(kept, {"instructions": "", "tools": [], "max_output_tokens": "inf"})
    assert (cleared.instructions, cleared.voice, cleared.tokens_max) == ("", "high", None)


def test_a_greeting_is_the_servers_the_sessions_or_none() -> None:
    ours = Greeting(text="Hello from us.")
    profile = replace(PROFILE, greeting=ours)
    config = initial(profile, session_id="s", session=None)
    assert (config.greeting, config.wire["duplex"]["greeting"]) == (ours, {"text": "Hello from us."})
    asked = {"duplex": {"greeting": {"instructions": "Greet the user by name."}}}
    own = merge(config, read(SessionUpdate, asked), profile)
    assert own.greeting == Greeting(instructions="Greet the user by name.")
    assert own.wire["duplex"]["greeting"] == asked["duplex"]["greeting"]
    none = merge(own, read(SessionUpdate, {"duplex": {"greeting": "none"}}), profile)
    assert (none.greeting, none.wire["duplex"]["greeting"]) == (None, "none")
    assert merge(none, read(SessionUpdate, {"duplex": {"greeting": None}}), profile).greeting == ours


def test_null_restores_the_default() -> None:
    config = start({
        "instructions": "x",
        "output_modalities": ["text"],
        "max_output_tokens": 5,
        "audio": {"output": {"speed": 1.5, "voice": "high"}},
        "duplex": {"lead_ms": "unlimited", "on_onset": "none"},
    })  # fmt: skip
    assert (config.lead_ms, config.on_onset, config.modalities) == (None, "none", ("text",))
    restored = update(config, {
        "instructions": None,
        "output_modalities": None,
        "max_output_tokens": None,
        "audio": {"output": {"speed": None, "voice": None}},
        "duplex": {"lead_ms": None, "on_onset": None},
    })  # fmt: skip
    assert restored == start()


def test_an_update_leaves_the_old_configuration_alone() -> None:
    config = start()
    before = copy.deepcopy(config.wire)
    update(config, detection(type="server_vad") | {"instructions": "new"})
    assert config.wire == before


def test_turn_detection_can_be_turned_off_and_on() -> None:
    off = update(start(), {"audio": {"input": {"turn_detection": None}}})
    assert off.turn_detection is None
    assert update(off, {"instructions": "x"}).turn_detection is None
    on = update(off, detection(type="server_vad"))
    assert on.turn_detection == TurnDetection(
        kind="server_vad", threshold=0.5, silence_ms=500, prefix_padding_ms=300, idle_timeout_ms=None
    )


def test_turn_detection_merges_within_its_type_only() -> None:
    config = update(start(), detection(type="server_vad", silence_duration_ms=700, create_response=False))
    same = update(config, detection(threshold=0.7))
    assert same.turn_detection == TurnDetection(
        kind="server_vad", threshold=0.7, silence_ms=700, prefix_padding_ms=300, create_response=False
    )
    other = update(same, detection(type="semantic_vad", eagerness="high"))
    assert other.turn_detection == TurnDetection(kind="semantic_vad", eagerness="high")
    assert "threshold" not in other.wire["audio"]["input"]["turn_detection"]


def test_transcription_is_turned_off_by_null() -> None:
    off = update(start(), {"audio": {"input": {"transcription": None}}})
    assert not off.transcribe
    assert update(off, {"audio": {"input": {"transcription": {"model": "whisper-1"}}}}).transcribe


def test_what_stock_clients_send_is_taken_and_shown_as_it_is_in_effect() -> None:
    config = start({
        "type": "realtime",
        "model": "gpt-realtime",
        "tool_choice": "auto",
        "tools": [],
        "parallel_tool_calls": True,
        "truncation": "auto",
        "tracing": "auto",
        "include": ["item.input_audio_transcription.logprobs"],
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "noise_reduction": {"type": "near_field"},
                "transcription": {"model": "gpt-4o-mini-transcribe", "language": "en"},
                "turn_detection": {"type": "semantic_vad"},
            },
            "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "marin", "speed": 1},
        },
    })  # fmt: skip
    assert config == start()


def test_a_pack_may_have_a_voice_with_a_stock_name() -> None:
    profile = WireProfile(voices=("low", "coral"))
    config = initial(profile, session_id="s", session={"audio": {"output": {"voice": {"id": "coral"}}}})
    assert config.voice == "coral"


@pytest.mark.parametrize(
    ("session", "code", "param"),
    [
        ({"type": "weird"}, "invalid_value", "session.type"),
        ({"tools": [{"type": "function"}]}, "unsupported", "session.tools"),
        ({"prompt": {"id": "pmpt_1"}}, "unsupported", "session.prompt"),
        ({"tool_choice": "always"}, "invalid_value", "session.tool_choice"),
        ({"output_modalities": ["video"]}, "invalid_value", "session.output_modalities"),
        ({"max_output_tokens": 4097}, "invalid_value", "session.max_output_tokens"),
        ({"instructions": 5}, "invalid_type", "session.instructions"),
        ({"instructions": "x" * 100_001}, "string_above_max_length", "session.instructions"),
        ({"audio": {"output": {"speed": 9.0}}}, "invalid_value", "session.audio.output.speed"),
        ({"audio": {"output": {"speed": True}}}, "invalid_type", "session.audio.output.speed"),
        ({"audio": {"output": {"voice": "nobody"}}}, "invalid_value", "session.audio.output.voice"),
        ({"audio": {"output": {"voice": {"name": "x"}}}}, "invalid_value", "session.audio.output.voice"),
        ({"audio": {"output": {"voice": 7}}}, "invalid_value", "session.audio.output.voice"),
        ({"audio": {"output": {"speed": 0.24}}}, "invalid_value", "session.audio.output.speed"),
        ({"audio": {"output": {"speed": 1.51}}}, "invalid_value", "session.audio.output.speed"),
        ({"audio": {"input": {"format": {"type": "audio/opus"}}}}, "invalid_value", "session.audio.input.format.type"),
        (
            {"audio": {"output": {"format": {"type": "audio/pcmu", "rate": 24000}}}},
            "invalid_value",
            "session.audio.output.format.rate",
        ),
        ({"truncation": "never"}, "invalid_value", "session.truncation"),
        (
            {"truncation": {"type": "retention_ratio"}},
            "missing_required_parameter",
            "session.truncation.retention_ratio",
        ),
        (
            {"truncation": {"type": "retention_ratio", "retention_ratio": 1.1}},
            "invalid_value",
            "session.truncation.retention_ratio",
        ),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, "unsupported", "session.tools"),
        (
            detection(type="server_vad", idle_timeout_ms=4999),
            "invalid_value",
            "session.audio.input.turn_detection.idle_timeout_ms",
        ),
        (
            detection(type="server_vad", idle_timeout_ms=30_001),
            "invalid_value",
            "session.audio.input.turn_detection.idle_timeout_ms",
        ),
        (
            {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}},
            "invalid_value",
            "session.audio.input.format.rate",
        ),
        ({"audio": {"input": {"format": "pcm16"}}}, "invalid_type", "session.audio.input.format"),
        (detection(type="weird"), "invalid_value", "session.audio.input.turn_detection.type"),
        (detection(type="server_vad", threshold=2.0), "invalid_value", "session.audio.input.turn_detection.threshold"),
        ({"duplex": {"lead_ms": 600_001}}, "invalid_value", "session.duplex.lead_ms"),
        ({"duplex": {"lead_ms": "forever"}}, "invalid_value", "session.duplex.lead_ms"),
        ({"duplex": {"lead_ms": True}}, "invalid_value", "session.duplex.lead_ms"),
        ({"duplex": {"on_onset": "shout"}}, "invalid_value", "session.duplex.on_onset"),
        ({"duplex": {"greeting": "hello"}}, "invalid_value", "session.duplex.greeting"),
        ({"duplex": {"greeting": {"text": " "}}}, "invalid_value", "session.duplex.greeting"),
        (
            {"duplex": {"greeting": {"text": "Hi", "instructions": "Greet."}}},
            "invalid_value",
            "session.duplex.greeting",
        ),
        ({"duplex": {"greeting": {"text": "x" * 4001}}}, "invalid_value", "session.duplex.greeting"),
    ],
)
def test_refusals_name_the_field(session: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(RemoteProtocolError) as refused:
        update(start(), session)
    assert (refused.value.code, refused.value.param) == (code, param)
    assert "instance of" not in refused.value.message, "words of this server's own language"
    with pytest.raises(SessionRejected) as at_start:
        start(session)
    assert (at_start.value.code, at_start.value.param) == (code, param)


def test_turn_detection_needs_its_type_when_none_stands() -> None:
    off = update(start(), {"audio": {"input": {"turn_detection": None}}})
    with pytest.raises(RemoteProtocolError) as refused:
        update(off, detection(create_response=False))
    assert refused.value.code == "missing_required_parameter"


def test_formats_of_both_directions_are_chosen_apart_and_null_is_the_default() -> None:
    config = start({"audio": {"input": {"format": {"type": "audio/pcmu", "rate": 8000}}}})
    shown = config.wire["audio"]
    assert (shown["input"]["format"], shown["output"]["format"]["type"]) == ({"type": "audio/pcmu"}, "audio/pcm")
    kept = update(config, {"audio": {"input": {"noise_reduction": None}, "output": {"format": {"type": "audio/pcma"}}}})
    assert kept.wire["audio"]["input"]["format"] == {"type": "audio/pcmu"}
    assert kept.wire["audio"]["output"]["format"] == {"type": "audio/pcma"}
    assert update(kept, {"audio": {"input": {"format": None}, "output": {"format": None}}}) == start()


def test_truncation_means_what_it_says() -> None:
    ratio = {"type": "retention_ratio", "retention_ratio": 0.8, "token_limits": {"post_instructions": 500}}
    config = start({"truncation": ratio})
    assert (config.truncation, config.wire["truncation"]) == (Truncation(kept_share=0.8, history_max=500), ratio)
    assert update(config, {"instructions": "x"}).truncation == config.truncation
    assert update(config, {"truncation": "disabled"}).truncation == Truncation(trims=False)
    assert update(config, {"truncation": None}) == start()


def test_an_idle_timeout_belongs_to_server_vad() -> None:
    config = update(start(), detection(type="server_vad", idle_timeout_ms=5000))
    assert config.turn_detection is not None
    assert config.turn_detection.idle_timeout_ms == 5000
    kept = update(config, detection(threshold=0.7))
    assert kept.wire["audio"]["input"]["turn_detection"]["idle_timeout_ms"] == 5000
    off = update(kept, detection(idle_timeout_ms=None)).turn_detection
    assert off is not None
    assert off.idle_timeout_ms is None
    other = update(kept, detection(type="semantic_vad", idle_timeout_ms=5000)).turn_detection
    assert other == TurnDetection(kind="semantic_vad")


def test_a_pack_without_words_makes_no_transcription_session() -> None:
    with pytest.raises(SessionRejected) as refused:
        initial(replace(PROFILE, transcribes=False), session_id="s", session={"type": "transcription"})
    assert (refused.value.code, refused.value.param) == ("unsupported", "session.type")


@pytest.mark.parametrize(("eagerness", "cap_ms"), [("low", 8000), ("medium", 4000), ("auto", 4000), ("high", 2000)])
def test_an_unsure_end_of_turn_holds_no_longer_than_the_protocol_says(
    eagerness: Literal["low", "medium", "high", "auto"], cap_ms: int
) -> None:
    limits = limits_for(TurnDetection(eagerness=eagerness), Settings().turn)
    assert limits.end <= samples_from_ms(cap_ms)
