"""From the wire's session object to the core's choices: defaults, merge rules, refusals.

Merging: an absent field keeps what stands, `null` goes back to the default, `""` clears the instructions, `[]` clears the
tools, `null` for `turn_detection` turns it off (push to talk) and for `transcription` stops sending transcripts. Within
`turn_detection` absent fields keep only while its `type` stays the same.

The session object that goes back shows what is in effect, not what was asked:

    asked                                             taken as                shown
    any `model`                                       the pack's model        the pack's name
    a voice of the stock clients (alloy, marin, …)    the pack's first voice  its name
    noise_reduction, where audio is not processed     no effect               null
    tracing, include, reasoning,                      no effect               null, [], absent,
    transcription.model/language/prompt                                       the pack's model
    create_response of a transcription session        false                   false
    tools other than functions, prompt, duplex.echo_cancellation
    where audio is not processed, fields where they
    stood before they were moved                      refused with a reason

Source: protocol.md, "Session config".
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from duplex.protocol import errors, strict_json
from duplex.protocol.audio import shown_format
from duplex.protocol.errors import RemoteProtocolError, SessionRejected
from duplex.protocol.former_shape import SESSION, refuse_former
from duplex.protocol.images import ImageBounds
from duplex.protocol.lock import check_changed, check_sent, open_fields
from duplex.protocol.tools import ToolBounds, check_choice, read_tools, toolset_of
from duplex.protocol.transcription import check_available
from duplex.protocol.truncation import shown_truncation, truncation_of
from duplex.protocol.wire_session import (
    AudioInputUpdate,
    AudioOutputUpdate,
    DuplexUpdate,
    SessionUpdate,
    TurnDetectionUpdate,
    read,
)
from duplex.session.config import Greeting, SessionConfig, TurnDetection

STOCK_VOICES = frozenset({"alloy", "ash", "ballad", "coral", "echo", "sage", "shimmer", "verse", "marin", "cedar"})
"""Names that stock clients ask for by themselves; refusing them would refuse the whole configuration."""
_UNLIMITED = "unlimited"
_NO_GREETING = "none"
_SPEED = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WireProfile:
    """What this server offers to every session, and how much it takes."""

    model: str = "default"
    """Name of the model pack."""
    voices: tuple[str, ...] = ("default",)
    """At least one; the first is the default."""
    lead_ms: int = 5000
    """Default run-ahead of WebSocket audio."""
    on_onset: Literal["duck", "hold", "none"] = "duck"
    voice_threshold: float = 0.5
    prefix_padding_ms: int = 300
    text_chars_max: int = 100_000
    """Longest instructions or text item, in characters."""
    greeting: Greeting | None = None
    """What a session says first, when it does not choose."""
    transcribes: bool = True
    """The model pack writes transcripts."""
    processes_audio: bool = False
    """Noise reduction and echo cancellation have an effect."""
    append_bytes_max: int = 15 * 1024 * 1024
    """Largest decoded audio of one append."""
    audio_ms_max: int = 30_000
    """Longest audio of an item; 0: none is taken."""
    images: ImageBounds | None = None
    """What is taken of images in items; None: the model reads none."""
    tools: ToolBounds | None = None
    """What is taken of tools; None: the model calls none."""
    calls_awaited_max: int = 64
    """Calls of an RTVI session whose results are waited for."""
    json: strict_json.JsonBounds = strict_json.DEFAULT
    """What is taken of the structure of one event."""
    recorded: bool = False
    """The server keeps a record of its sessions; each says so, and none can change it."""

    def resolve_voice(self, name: str | None, param: str) -> str:
        """Return the pack's voice for a client's word for it.

        Raises:
            RemoteProtocolError: the pack has no such voice.
        """
        if name is None or name in STOCK_VOICES - set(self.voices):
            return self.voices[0]
        if name not in self.voices:
            raise RemoteProtocolError(
                errors.INVALID_VALUE, f"No such voice; this server has: {', '.join(self.voices)}.", param
            )
        return name


def initial(
    profile: WireProfile,
    *,
    session_id: str,
    session: dict[str, Any] | None = None,
    expires_at: int | None = None,
    locked: dict[str, Any] | None = None,
) -> SessionConfig:
    """Return the configuration of a new session.

    Args:
        profile: what the server offers.
        session_id: id that the client sees.
        session: the session object that came with the offer, already read from JSON.
        expires_at: seconds since 1970 at which the session will be closed; None: no limit.
        locked: the session object of the lock that the client is under; None: under none.
    Raises:
        SessionRejected: `session` is wrong, or sets what is locked.
    """
    config = _resolve(_defaults(profile, session_id, expires_at))
    try:
        if locked is not None:
            config = merge(config, read(SessionUpdate, locked, "session."), profile)
            config = replace(config, open_fields=open_fields(locked))
        if session is not None:
            config = merge(config, read(SessionUpdate, session, "session."), profile)
        return config
    except RemoteProtocolError as error:
        raise SessionRejected(error.code, error.message, error.param) from None


def merge(config: SessionConfig, update: SessionUpdate, profile: WireProfile) -> SessionConfig:
    """Return `config` with the fields that `update` carries.

    Raises:
        RemoteProtocolError: a field is not allowed here; nothing of the update is taken.
    """
    check_sent(config, {name: getattr(update, name) for name in update.model_fields_set})
    _refuse_unsupported(update, profile)
    wire = copy.deepcopy(dict(config.wire))
    _merge_choices(wire, update, profile)
    _merge_tools(wire, update, profile)
    if update.audio is not None:
        if update.audio.input is not None:
            _merge_input(wire["audio"]["input"], update.audio.input, profile)
        if update.audio.output is not None:
            _merge_output(wire["audio"]["output"], update.audio.output, profile)
    if update.duplex is not None:
        _merge_duplex(wire["duplex"], update.duplex, profile)
    merged = replace(_resolve(wire), open_fields=config.open_fields)
    check_changed(config, merged)
    return merged


def _defaults(profile: WireProfile, session_id: str, expires_at: int | None) -> dict[str, Any]:
    """Return the session object of a client that asks for nothing."""
    wire: dict[str, Any] = {
        "type": "realtime",
        "object": "realtime.session",
        "id": session_id,
        "model": profile.model,
        "output_modalities": ["audio"],
        "instructions": "",
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "max_output_tokens": "inf",
        "tracing": None,
        "truncation": "auto",
        "prompt": None,
        "expires_at": expires_at,
        "include": [],
        "audio": {
            "input": {
                "format": shown_format(None, ""),
                "noise_reduction": None,
                "transcription": {"model": profile.model},
                "turn_detection": _turn_detection_defaults("semantic_vad", profile),
            },
            "output": {
                "format": shown_format(None, ""),
                "voice": profile.voices[0],
                "speed": _SPEED,
            },
        },
        "duplex": {
            "lead_ms": profile.lead_ms,
            "on_onset": profile.on_onset,
            "echo_cancellation": False,
            "resume": False,
            "events": None,
            "greeting": _shown_greeting(profile.greeting),
        },
    }
    if profile.recorded:
        wire["duplex"]["recorded"] = True
    return wire


def _merge_choices(wire: dict[str, Any], update: SessionUpdate, profile: WireProfile) -> None:
    """Take what stands in the session object itself."""
    sent = update.model_fields_set
    if update.type is not None:
        wire["type"] = update.type
    if "truncation" in sent:
        wire["truncation"] = shown_truncation(update.truncation, "session.truncation")
    if "instructions" in sent:
        instructions = update.instructions or ""
        if len(instructions) > profile.text_chars_max:
            raise RemoteProtocolError(
                errors.TOO_LONG, f"Instructions take {profile.text_chars_max} characters.", "session.instructions"
            )
        wire["instructions"] = instructions
    if "output_modalities" in sent:
        wire["output_modalities"] = update.output_modalities or ["audio"]
    if "max_output_tokens" in sent:
        wire["max_output_tokens"] = update.max_output_tokens or "inf"


def _merge_tools(wire: dict[str, Any], update: SessionUpdate, profile: WireProfile) -> None:
    """Take the tools and what is chosen of them; a function that was chosen and is gone gives way to `auto`."""
    sent = update.model_fields_set
    if "tools" in sent:
        wire["tools"] = read_tools(update.tools or [], profile.tools, "session.tools")
    if "tool_choice" in sent:
        wire["tool_choice"] = check_choice(update.tool_choice, wire["tools"], "session.tool_choice")
    elif toolset_of(wire["tools"], wire["tool_choice"], True).choice == "auto":
        wire["tool_choice"] = "auto"
    if "parallel_tool_calls" in sent:
        wire["parallel_tool_calls"] = update.parallel_tool_calls is not False


def _merge_input(wire: dict[str, Any], update: AudioInputUpdate, profile: WireProfile) -> None:
    if "format" in update.model_fields_set:
        wire["format"] = shown_format(update.format, "session.audio.input.format")
    if "noise_reduction" in update.model_fields_set and profile.processes_audio:
        wire["noise_reduction"] = None if update.noise_reduction is None else {"type": update.noise_reduction.type}
    if "transcription" in update.model_fields_set:
        wire["transcription"] = None if update.transcription is None else {"model": profile.model}
    if "turn_detection" in update.model_fields_set:
        wire["turn_detection"] = _merge_turn_detection(wire["turn_detection"], update.turn_detection, profile)


def _merge_turn_detection(
    present: dict[str, Any] | None, update: TurnDetectionUpdate | None, profile: WireProfile
) -> dict[str, Any] | None:
    if update is None:
        return None
    kind = update.type or (present or {}).get("type")
    if kind is None:
        param = "session.audio.input.turn_detection.type"
        raise RemoteProtocolError(errors.MISSING_PARAMETER, f"Missing required parameter: '{param}'.", param)
    defaults = _turn_detection_defaults(kind, profile)
    merged = dict(present) if present is not None and present["type"] == kind else dict(defaults)
    for name in update.model_fields_set & defaults.keys() - {"type"}:
        value = getattr(update, name)
        merged[name] = defaults[name] if value is None else value
    return merged


def _turn_detection_defaults(kind: str, profile: WireProfile) -> dict[str, Any]:
    if kind == "semantic_vad":
        own: dict[str, Any] = {"eagerness": "auto"}
    else:
        own = {
            "threshold": profile.voice_threshold,
            "prefix_padding_ms": profile.prefix_padding_ms,
            "silence_duration_ms": 500,
            "idle_timeout_ms": None,
        }
    return {"type": kind, **own, "create_response": True, "interrupt_response": True}


def _merge_output(wire: dict[str, Any], update: AudioOutputUpdate, profile: WireProfile) -> None:
    if "format" in update.model_fields_set:
        wire["format"] = shown_format(update.format, "session.audio.output.format")
    if "voice" in update.model_fields_set:
        wire["voice"] = profile.resolve_voice(update.voice, "session.audio.output.voice")
    if "speed" in update.model_fields_set:
        wire["speed"] = _SPEED if update.speed is None else update.speed


def _merge_duplex(wire: dict[str, Any], update: DuplexUpdate, profile: WireProfile) -> None:
    if "lead_ms" in update.model_fields_set:
        wire["lead_ms"] = profile.lead_ms if update.lead_ms is None else update.lead_ms
    if "on_onset" in update.model_fields_set:
        wire["on_onset"] = update.on_onset or profile.on_onset
    if update.echo_cancellation and not profile.processes_audio:
        raise RemoteProtocolError(
            errors.UNSUPPORTED,
            "This server does not process audio (media.processing); cancel the echo beside the loudspeaker.",
            "session.duplex.echo_cancellation",
        )
    if "echo_cancellation" in update.model_fields_set:
        wire["echo_cancellation"] = bool(update.echo_cancellation)
    if "resume" in update.model_fields_set:
        wire["resume"] = bool(update.resume)
    if "events" in update.model_fields_set:
        wire["events"] = update.events
    if "greeting" in update.model_fields_set:
        wire["greeting"] = _shown_greeting(profile.greeting) if update.greeting is None else update.greeting


def _shown_greeting(greeting: Greeting | None) -> dict[str, str] | str:
    if greeting is None:
        return _NO_GREETING
    return {"text": greeting.text} if greeting.text is not None else {"instructions": greeting.instructions or ""}


def _refuse_unsupported(update: SessionUpdate, profile: WireProfile) -> None:
    check_available(update.type, transcribes=profile.transcribes, param="session.type")
    refuse_former(update, SESSION, "session")
    if update.prompt is not None:
        raise RemoteProtocolError(
            errors.UNSUPPORTED, "Stored prompts are not supported; use instructions.", "session.prompt"
        )


def _resolve(wire: Mapping[str, Any]) -> SessionConfig:
    """Read the core's choices off a complete session object."""
    detection = wire["audio"]["input"]["turn_detection"]
    tokens, lead, greeting = wire["max_output_tokens"], wire["duplex"]["lead_ms"], wire["duplex"]["greeting"]
    replies = wire["type"] == "realtime"
    return SessionConfig(
        kind=wire["type"],
        instructions=wire["instructions"],
        voice=wire["audio"]["output"]["voice"],
        speed=float(wire["audio"]["output"]["speed"]),
        modalities=tuple(wire["output_modalities"]),
        tokens_max=None if tokens == "inf" else tokens,
        turn_detection=None if detection is None else _resolve_turn_detection(detection, replies),
        transcribe=not replies or wire["audio"]["input"]["transcription"] is not None,
        on_onset=wire["duplex"]["on_onset"],
        noise_reduction=wire["audio"]["input"]["noise_reduction"] is not None,
        echo_cancellation=wire["duplex"]["echo_cancellation"],
        lead_ms=None if lead == _UNLIMITED else lead,
        truncation=truncation_of(wire["truncation"]),
        greeting=None if greeting == _NO_GREETING or not replies else Greeting(**greeting),
        resume=wire["duplex"]["resume"],
        toolset=toolset_of(wire["tools"], wire["tool_choice"], wire["parallel_tool_calls"]),
        wire=wire,
    )


def _resolve_turn_detection(wire: Mapping[str, Any], replies: bool) -> TurnDetection:
    if wire["type"] == "semantic_vad":
        return TurnDetection(
            kind="semantic_vad",
            eagerness=wire["eagerness"],
            create_response=wire["create_response"] and replies,
            interrupt_response=wire["interrupt_response"],
        )
    return TurnDetection(
        kind="server_vad",
        threshold=wire["threshold"],
        silence_ms=wire["silence_duration_ms"],
        prefix_padding_ms=wire["prefix_padding_ms"],
        idle_timeout_ms=wire["idle_timeout_ms"] if replies else None,
        create_response=wire["create_response"] and replies,
        interrupt_response=wire["interrupt_response"],
    )
