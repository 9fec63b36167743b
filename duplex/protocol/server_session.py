"""The session object as the server shows it: what is in effect.

A field is always there unless it says "Left out …". Source: `openai.types.realtime` (openai 3.57.0); protocol.md, "Traps".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from duplex.protocol.server_model import LEFT_OUT, Count, Milliseconds, ShownModel

Modality = Literal["audio", "text"]


class PcmFormat(ShownModel):
    """16 bits, little endian, mono."""

    type: Literal["audio/pcm"]
    rate: Literal[24000]
    """Samples in a second."""


class MuLawFormat(ShownModel):
    """G.711 µ-law, 8 kHz, mono."""

    type: Literal["audio/pcmu"]


class ALawFormat(ShownModel):
    """G.711 A-law, 8 kHz, mono."""

    type: Literal["audio/pcma"]


ShownFormat = TypeAliasType("ShownFormat", Annotated[PcmFormat | MuLawFormat | ALawFormat, Field(discriminator="type")])
"""How audio is written in events. A WebRTC call negotiates its codec in SDP, whatever stands here."""


class ShownNoiseReduction(ShownModel):
    """What is done to the user's sound."""

    type: Literal["near_field", "far_field"]
    """Near: a headset. Far: a room."""


class ShownTranscription(ShownModel):
    """The user's words are told."""

    model: str
    """Name of the model pack."""


class ServerVad(ShownModel):
    """A turn ends after a silence."""

    type: Literal["server_vad"]
    threshold: Annotated[float, Field(ge=0, le=1)]
    """Probability from which on sound is a voice."""
    prefix_padding_ms: Milliseconds
    """Taken from before the voice began."""
    silence_duration_ms: Milliseconds
    """That ends a turn."""
    idle_timeout_ms: Milliseconds | None
    """After so long without a word the model speaks; null: never."""
    create_response: bool
    """A turn is answered by itself."""
    interrupt_response: bool
    """The user's voice cuts a reply."""


class SemanticVad(ShownModel):
    """A turn ends when it sounds ended."""

    type: Literal["semantic_vad"]
    eagerness: Literal["low", "medium", "high", "auto"]
    """How soon a pause is taken for an end."""
    create_response: bool
    """A turn is answered by itself."""
    interrupt_response: bool
    """The user's voice cuts a reply."""


TurnDetection = TypeAliasType("TurnDetection", Annotated[ServerVad | SemanticVad, Field(discriminator="type")])
"""Who decides that a turn has ended."""


class ShownInput(ShownModel):
    """How the session listens."""

    format: ShownFormat
    """Of appended audio."""
    noise_reduction: ShownNoiseReduction | None
    """Null: none."""
    transcription: ShownTranscription | None
    """Null: the user's words are not told."""
    turn_detection: TurnDetection | None
    """Null: the client commits turns (push to talk)."""


class ShownOutput(ShownModel):
    """How the session sounds."""

    format: ShownFormat
    """Of audio deltas."""
    voice: str
    """One of the model pack's."""
    speed: Annotated[float, Field(ge=0.25, le=1.5)]
    """1: as the voice speaks by itself."""


class ShownAudio(ShownModel):
    """Both directions."""

    input: ShownInput
    output: ShownOutput


class GreetingText(ShownModel):
    """Words that are spoken as they stand."""

    text: str
    """As the client or the operator gave it."""


class GreetingInstructions(ShownModel):
    """What the model is told to greet with."""

    instructions: str
    """As the client or the operator gave them."""


class ShownDuplex(ShownModel):
    """This server's own settings of a session."""

    lead_ms: Milliseconds | Literal["unlimited"]
    """How far WebSocket audio runs ahead of its playback."""
    on_onset: Literal["duck", "hold", "none"]
    """What becomes of a reply while it is not certain that the user interrupts."""
    echo_cancellation: bool
    """The server takes its own voice out of the user's sound."""
    resume: bool
    """The session outlives a lost connection, see resume.md."""
    events: bool | None
    """Our own events that tell and ask nothing are sent (sessions.md); null: on WebRTC only."""
    greeting: GreetingText | GreetingInstructions | Literal["none"]
    """What the model says first."""
    recorded: Literal[True] = LEFT_OUT
    """Left out unless the operator keeps a record of the session."""


class ShownTool(ShownModel):
    """A function that the model may call."""

    type: Literal["function"]
    name: str
    """What calls name."""
    description: str
    """When to call it; empty if the client gave none."""
    parameters: dict[str, Any]
    """JSON schema of the arguments; of an empty object if the client gave none."""


class ChosenFunction(ShownModel):
    """The one function that the model has to call."""

    type: Literal["function"]
    name: str
    """One of the session's tools."""


ShownToolChoice = TypeAliasType("ShownToolChoice", Literal["auto", "none", "required"] | ChosenFunction)
"""Whether the model may, must not or has to call a tool, or which one."""


class TokenLimits(ShownModel):
    """Bounds of what the model is given."""

    post_instructions: Count
    """Tokens of the conversation, without the instructions."""


class RetentionRatio(ShownModel):
    """How much of a conversation that has outgrown the context is kept."""

    type: Literal["retention_ratio"]
    retention_ratio: Annotated[float, Field(ge=0, le=1)]
    """Share of the bound that is kept."""
    token_limits: TokenLimits = LEFT_OUT
    """Left out unless the client gave them."""


Truncation = TypeAliasType("Truncation", Literal["auto", "disabled"] | RetentionRatio)
"""What is done about a conversation that outgrows the model's context."""


class Session(ShownModel):
    """A conversation's session: what is in effect, not what was asked for."""

    type: Literal["realtime"]
    object: Literal["realtime.session"]
    id: str
    model: str
    """Name of the model pack."""
    output_modalities: Annotated[list[Modality], Field(min_length=1, max_length=1)]
    """`["audio"]`, speech with its transcript, or `["text"]`."""
    instructions: str = LEFT_OUT
    """Left out of a locked session."""
    tools: list[ShownTool]
    tool_choice: ShownToolChoice
    parallel_tool_calls: bool
    """Several calls may come in one response."""
    max_output_tokens: Annotated[int, Field(ge=1)] | Literal["inf"]
    """Of one response."""
    tracing: None
    """Has no effect."""
    truncation: Truncation
    prompt: None
    """Stored prompts are not supported."""
    expires_at: int | None
    """Seconds since 1970; null: never."""
    include: list[Literal["item.input_audio_transcription.logprobs"]]
    """Has no effect."""
    audio: ShownAudio
    duplex: ShownDuplex


class TranscriptionAudio(ShownModel):
    """The one direction of a transcription session."""

    input: ShownInput


class TranscriptionSession(ShownModel):
    """A session that writes down and never replies."""

    type: Literal["transcription"]
    object: Literal["realtime.transcription_session"]
    id: str
    expires_at: int | None
    """Seconds since 1970; null: never."""
    include: list[Literal["item.input_audio_transcription.logprobs"]]
    """Has no effect."""
    audio: TranscriptionAudio


ShownSession = TypeAliasType("ShownSession", Annotated[Session | TranscriptionSession, Field(discriminator="type")])
"""A session object as the client may see it."""


class ShownConversation(ShownModel):
    """The one conversation of a session."""

    id: str
    object: Literal["realtime.conversation"]
