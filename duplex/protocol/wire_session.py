"""The session object as clients send it: shapes and ranges only, every field optional, nothing resolved.

Fields that are not named here are ignored and counted. Source: `openai.types.realtime.RealtimeSessionCreateRequest`
(openai 3.57.0).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from duplex.protocol import errors
from duplex.protocol.errors import RemoteProtocolError

LEAD_MS_MAX = 600_000
GREETING_CHARS_MAX = 4000
TOKENS_MAX = 4096

_MISSING = "missing"
_OF_VALUE = ("value_error", "literal_error", "greater_than", "less_than", "finite_number", "string_too_short")
_TOO_LONG = ("string_too_long", "too_long")
_NO_OBJECT = ("model_type", "dict_type")


class WireModel(BaseModel):
    """Strict types, unknown fields kept aside so that they can be counted."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, hide_input_in_errors=True)

    def unknown_fields(self) -> int:
        """Return how many fields of the object and of its parts the server does not know."""
        return len(self.model_extra or {}) + sum(_unknown_in(value) for value in self.__dict__.values())


def _unknown_in(value: object) -> int:
    if isinstance(value, WireModel):
        return value.unknown_fields()
    return sum(map(_unknown_in, value)) if isinstance(value, tuple | list) else 0


def read(model: type[WireModel], raw: dict[str, Any], prefix: str = "") -> Any:
    """Validate `raw` and return an instance of `model`.

    Raises:
        RemoteProtocolError: names the first wrong field as `prefix` + its dotted path.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise wire_error(error, raw, prefix) from None


def wire_error(error: ValidationError, raw: dict[str, Any], prefix: str = "") -> RemoteProtocolError:
    """Turn a validation error into the wire's: code, message without the client's input, dotted path."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    kind = first["type"]
    param = prefix + ".".join(map(str, _path(first["loc"], raw, missing=kind == _MISSING)))
    if kind == _MISSING:
        return RemoteProtocolError(errors.MISSING_PARAMETER, f"Missing required parameter: '{param}'.", param)
    reason = "should be an object" if kind in _NO_OBJECT else first["msg"].removeprefix("Value error, ")
    if kind in _TOO_LONG:
        code = errors.TOO_LONG
    else:
        code = errors.INVALID_VALUE if kind.startswith(_OF_VALUE) else errors.INVALID_TYPE
    return RemoteProtocolError(code, f"Invalid value for '{param}': {reason[:1].lower()}{reason[1:]}.", param)


def _path(loc: tuple[int | str, ...], raw: Any, *, missing: bool) -> list[int | str]:
    """Keep the steps of a validation error's place that exist in the input: unions and tags add others."""
    path: list[int | str] = []
    at = raw
    for i, step in enumerate(loc):
        if isinstance(at, dict) and step in at:
            path.append(step)
            at = at[step]
        elif isinstance(at, list) and isinstance(step, int):
            path.append(step)
            at = at[step]
        elif missing and i == len(loc) - 1:
            path.append(step)
    return path


def _tokens(value: object) -> object:
    if value is None or value == "inf" or (type(value) is int and 1 <= value <= TOKENS_MAX):
        return value
    raise ValueError(f'should be an integer from 1 to {TOKENS_MAX}, or "inf"')


def _voice(value: object) -> object:
    name = value.get("id", "") if isinstance(value, dict) else value
    if value is None or (isinstance(name, str) and name):
        return name
    raise ValueError('should be the name of a voice, or an object {"id": name}')


def _lead(value: object) -> object:
    if value is None or value == "unlimited" or (type(value) is int and 0 <= value <= LEAD_MS_MAX):
        return value
    raise ValueError(f'should be an integer from 0 to {LEAD_MS_MAX}, or "unlimited"')


def _greeting(value: object) -> object:
    if value is None or value == "none":
        return value
    if isinstance(value, dict) and value.keys() in ({"text"}, {"instructions"}):
        (said,) = value.values()
        if isinstance(said, str) and 0 < len(said.strip()) and len(said) <= GREETING_CHARS_MAX:
            return value
    raise ValueError(
        'should be {"text": words}, {"instructions": words} or "none", with at most '
        f"{GREETING_CHARS_MAX} characters and not without words"
    )


def _modalities(value: object) -> object:
    if value is None or value in (["audio"], ["text"]):
        return value
    raise ValueError('should be ["audio"] (speech with its transcript) or ["text"]')


def _tool_choice(value: object) -> object:
    if value in (None, "auto", "none", "required"):
        return value
    if isinstance(value, dict) and value.get("type") == "function" and isinstance(value.get("name"), str):
        return {"type": "function", "name": value["name"]}
    raise ValueError('should be "auto", "none", "required", or {"type": "function", "name": name}')


class VoiceId(BaseModel):
    """A voice as an object."""

    id: str
    """Its name."""


class NamedFunction(BaseModel):
    """The one function that the model has to call."""

    type: Literal["function"]
    name: str
    """One of the tools."""


class FunctionTool(BaseModel):
    """A function that the model may call."""

    type: Literal["function"]
    name: str
    """What calls name."""
    description: str | None = None
    """When to call it."""
    parameters: dict[str, Any] | None = None
    """JSON schema of the arguments."""


def _as_sent(value: object) -> object:
    """Leave the value to the part that reads it, which names what is wrong in it."""
    return value


MaxTokens = Annotated[Any, BeforeValidator(_tokens, json_schema_input_type=int | Literal["inf"] | None)]
Voice = Annotated[str | None, BeforeValidator(_voice, json_schema_input_type=str | VoiceId | None)]
Modalities = Annotated[
    list[str] | None,
    BeforeValidator(_modalities, json_schema_input_type=list[Literal["audio", "text"]] | None),
]
ToolChoice = Annotated[
    Any,
    BeforeValidator(_tool_choice, json_schema_input_type=Literal["auto", "none", "required"] | NamedFunction | None),
]
Tools = Annotated[list[Any] | None, BeforeValidator(_as_sent, json_schema_input_type=list[FunctionTool] | None)]
Ms = Annotated[int, Field(ge=0, le=3_600_000)]
Speed = Annotated[float, Field(ge=0.25, le=1.5, allow_inf_nan=False)]


class AudioFormat(WireModel):
    """`audio/pcm` (16 bits, little endian), `audio/pcmu` or `audio/pcma` (G.711); mono."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"] = "audio/pcm"
    rate: Literal[8000, 24000] | None = None
    """24000 of `audio/pcm`, 8000 of the others."""


class NoiseReduction(WireModel):
    """What is to be done to the user's sound."""

    type: Literal["near_field", "far_field"]
    """Near: a headset. Far: a room."""
    strength: Any = None
    """Has no effect."""


class Transcription(WireModel):
    """How the user's words are to be told."""

    model: str | None = None
    """Has no effect: the model pack hears."""
    language: str | None = None
    """Has no effect: the model pack has its own."""
    prompt: str | None = None
    """Has no effect."""
    delay: Any = None
    """Has no effect."""
    keywords: Any = None
    """Has no effect."""
    languages: Any = None
    """Has no effect."""


class TurnDetectionUpdate(WireModel):
    """Fields of both kinds; those of the other kind are ignored."""

    type: Literal["server_vad", "semantic_vad"] | None = None
    """A turn ends after a silence, or when it sounds ended."""
    create_response: bool | None = None
    """A turn is answered by itself."""
    interrupt_response: bool | None = None
    """The user's voice cuts a reply."""
    eagerness: Literal["low", "medium", "high", "auto"] | None = None
    """Of `semantic_vad`: how soon a pause is taken for an end."""
    threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    """Of `server_vad`: probability from which on sound is a voice."""
    prefix_padding_ms: Ms | None = None
    """Of `server_vad`: taken from before the voice began."""
    silence_duration_ms: Ms | None = None
    """Of `server_vad`: that ends a turn."""
    idle_timeout_ms: Annotated[int, Field(ge=5000, le=30_000)] | None = None
    """Of `server_vad`: after so long without a word the model speaks."""


class AudioInputUpdate(WireModel):
    """How the session is to listen."""

    format: AudioFormat | None = None
    """Of appended audio."""
    noise_reduction: NoiseReduction | None = None
    """Null: none. Has an effect where the server processes audio."""
    transcription: Transcription | None = None
    """Null: the user's words are not told."""
    turn_detection: TurnDetectionUpdate | None = None
    """Null: the client commits turns (push to talk)."""


class AudioOutputUpdate(WireModel):
    """How the session is to sound."""

    format: AudioFormat | None = None
    """Of audio deltas."""
    voice: Voice = None
    """One of the model pack's. Fixed after the first audio."""
    speed: Speed | None = None
    """1: as the voice speaks by itself."""


class AudioUpdate(WireModel):
    """Both directions."""

    input: AudioInputUpdate | None = None
    output: AudioOutputUpdate | None = None


class DuplexUpdate(WireModel):
    """Our own additions."""

    lead_ms: Annotated[Any, BeforeValidator(_lead, json_schema_input_type=Ms | Literal["unlimited"] | None)] = None
    """How far WebSocket audio runs ahead of its playback."""
    on_onset: Literal["duck", "hold", "none"] | None = None
    """What becomes of a reply while it is not certain that the user interrupts."""
    echo_cancellation: bool | None = None
    """Take the server's own voice out of the user's sound."""
    greeting: Annotated[
        Any,
        BeforeValidator(
            _greeting, json_schema_input_type=dict[Literal["text", "instructions"], str] | Literal["none"] | None
        ),
    ] = None
    """What the model says first: `{"text": …}`, `{"instructions": …}` or `none` (sessions.md)."""
    resume: bool | None = None
    """The session outlives a lost connection (resume.md)."""
    events: bool | None = None
    """Send our own events that tell and ask nothing (sessions.md); left out: on WebRTC only."""


class SessionUpdate(WireModel):
    """What `session.update` and the `session` part of an offer carry."""

    type: Literal["realtime", "transcription"] | None = None
    model: str | None = None
    """Has no effect: the model pack's is shown."""
    instructions: str | None = None
    """`""` clears them."""
    output_modalities: Modalities = None
    """`["audio"]`, speech with its transcript, or `["text"]`."""
    max_output_tokens: MaxTokens = None
    """Of one response."""
    audio: AudioUpdate | None = None
    tools: Tools = None
    """`[]` clears them."""
    tool_choice: ToolChoice = None
    """Whether the model may, must not or has to call a tool, or which one."""
    parallel_tool_calls: bool | None = None
    """Several calls may come in one response."""
    prompt: dict[str, Any] | None = None
    """Stored prompts are not supported."""
    tracing: Any = None
    """Has no effect."""
    truncation: Annotated[
        Any,
        BeforeValidator(_as_sent, json_schema_input_type=dict[str, Any] | Literal["auto", "disabled"] | None),
    ] = None
    """What is done about a conversation that outgrows the context: `auto`, `disabled` or `retention_ratio` (sessions.md)."""
    include: list[Any] | None = None
    """Has no effect."""
    reasoning: Any = None
    """Has no effect."""
    duplex: DuplexUpdate | None = None
