"""What the server's events are made of, as it stands on the wire: sessions, items, responses and their parts.

These models say what is sent; they do not send it. Audio deltas are hot, so `encode` and `wire_objects` build plain
dictionaries, and the tests hold every event that they build against these models. The page `docs/protocol.md` and the
types of the web SDK are made from them.

A field is always there unless it says "Left out …". Source: `openai.types.realtime` (openai 3.57.0); protocol.md, "Traps".
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

LEFT_OUT: Final[Any] = None
"""Default of a field that is not always there. It is never null on the wire, unless its type says so."""

Milliseconds = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Modality = Literal["audio", "text"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class ShownModel(BaseModel):
    """Exactly these fields, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


# Sessions. ------------------------------------------------------------------------------------------------------------


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


# Items. ---------------------------------------------------------------------------------------------------------------


class InputText(ShownModel):
    """Typed by the user, or told by the system."""

    type: Literal["input_text"]
    text: str
    """As it was typed."""


class InputAudio(ShownModel):
    """Said by the user. The sound itself is not kept for the client."""

    type: Literal["input_audio"]
    transcript: str | None
    """Null: it is not there yet."""


class PictureRead(ShownModel):
    """What there was in an image, and what was read of it."""

    format: Literal["png", "jpeg", "webp"]
    width: Count
    """Pixels, as sent."""
    height: Count
    """Pixels, as sent."""
    bytes: Count
    """As sent, decoded from base64."""
    state: Literal["waiting", "read", "nothing", "failed"]
    """Not read yet; read; nothing is legible in it; it could not be read."""
    text: str | None
    """What was read."""


class InputImage(ShownModel):
    """Shown by the user. The picture is not kept, so there is no `image_url`."""

    type: Literal["input_image"]
    detail: Literal["auto"]
    duplex: PictureRead


class OutputText(ShownModel):
    """Written by the model."""

    type: Literal["output_text"]
    text: str
    """As it was written."""


class OutputAudio(ShownModel):
    """Said by the model."""

    type: Literal["output_audio"]
    transcript: str
    """As far as it was heard, once the item was cut or truncated."""


class ShownItem(ShownModel):
    """What all items have."""

    id: str
    """Chosen by the client, or given."""
    object: Literal["realtime.item"]
    status: ItemStatus


class UserMessage(ShownItem):
    """What the user said, typed or showed."""

    type: Literal["message"]
    role: Literal["user"]
    content: list[Annotated[InputText | InputAudio | InputImage, Field(discriminator="type")]]
    """Text first, then images; or what was said."""


class SystemMessage(ShownItem):
    """What the client told the model beside the instructions."""

    type: Literal["message"]
    role: Literal["system"]
    content: list[InputText]


class AssistantMessage(ShownItem):
    """What the model said or wrote."""

    type: Literal["message"]
    role: Literal["assistant"]
    content: list[Annotated[OutputText | OutputAudio, Field(discriminator="type")]]
    """Empty while it begins."""


class FunctionCall(ShownItem):
    """The model wants a function called."""

    type: Literal["function_call"]
    call_id: str
    """Names the call in its output."""
    name: str
    """One of the session's tools."""
    arguments: str
    """JSON. Empty while it begins."""


class FunctionCallOutput(ShownItem):
    """What came of a call, from the client."""

    type: Literal["function_call_output"]
    call_id: str
    output: str
    """As the client gave it."""


_Message = Annotated[UserMessage | SystemMessage | AssistantMessage, Field(discriminator="role")]
ConversationItem = TypeAliasType(
    "ConversationItem", Annotated[_Message | FunctionCall | FunctionCallOutput, Field(discriminator="type")]
)
"""An item of the conversation, or of a response's output."""


class Restored(ShownModel):
    """Marks an item that was there before its client came back."""

    restored: Literal[True]
    """It is no new item."""
    cut: Literal[True] = LEFT_OUT
    """It was stopped before all of it was heard. Left out of all others."""


# Responses. -----------------------------------------------------------------------------------------------------------


class AudioPart(ShownModel):
    """Speech in a response: `output_audio` inside the item, `audio` as a part."""

    type: Literal["audio"]
    transcript: str
    """Its words."""


class TextPart(ShownModel):
    """Text in a response: `output_text` inside the item, `text` as a part."""

    type: Literal["text"]
    text: str
    """As it was written."""


ShownPart = TypeAliasType("ShownPart", Annotated[AudioPart | TextPart, Field(discriminator="type")])
"""A content part of a response's item, under the names that parts have."""


class CancelledDetails(ShownModel):
    """Why a response was cancelled."""

    type: Literal["cancelled"]
    reason: Literal["turn_detected", "client_cancelled"] | None
    """The user spoke; or the client said so, or left."""


class IncompleteDetails(ShownModel):
    """Why a response ended early."""

    type: Literal["incomplete"]
    reason: Literal["max_output_tokens", "content_filter"] | None


class ResponseError(ShownModel):
    """What went wrong in a response."""

    type: Literal["server_error"]
    code: str
    """`stage_failed`, as far as nothing more is known."""
    message: str
    """For people."""


class FailedDetails(ShownModel):
    """Why a response failed."""

    type: Literal["failed"]
    error: ResponseError


StatusDetails = TypeAliasType(
    "StatusDetails", Annotated[CancelledDetails | IncompleteDetails | FailedDetails, Field(discriminator="type")]
)
"""Why a response did not complete."""


class CachedTokens(ShownModel):
    """Input tokens that had been read before."""

    text_tokens: Count
    audio_tokens: Count
    image_tokens: Count


class InputTokens(ShownModel):
    """What the model was given."""

    text_tokens: Count
    audio_tokens: Count
    image_tokens: Count
    cached_tokens: Count
    """Of all these, how many had been read before."""
    cached_tokens_details: CachedTokens


class OutputTokens(ShownModel):
    """What the model made."""

    text_tokens: Count
    audio_tokens: Count


class UsageDuplex(ShownModel):
    """What this server counts beside tokens."""

    output_audio_ms: Milliseconds
    """Length of the speech that was made."""
    input_audio_ms: Milliseconds
    """Length of the user's turns that this response is the first to be made from."""
    input_estimated: bool
    """The engine has not told the tokens of its prompt."""


class Usage(ShownModel):
    """What a response took."""

    total_tokens: Count
    """Input and output."""
    input_tokens: Count
    """Given to the model."""
    output_tokens: Count
    """Made by the model."""
    input_token_details: InputTokens
    output_token_details: OutputTokens
    duplex: UsageDuplex


class ResponseOutput(ShownModel):
    """How a response sounds."""

    format: ShownFormat
    voice: str
    """One of the model pack's."""


class ShownResponseAudio(ShownModel):
    """The one direction of a response."""

    output: ResponseOutput


class Response(ShownModel):
    """A response as it stands."""

    id: str
    object: Literal["realtime.response"]
    status: Literal["in_progress", "completed", "cancelled", "failed", "incomplete"]
    status_details: StatusDetails | None
    """Null: in progress or completed."""
    output: list[ConversationItem]
    """Its items, as the conversation keeps them; empty until it is done."""
    conversation_id: str | None
    """Null: out of band."""
    output_modalities: Annotated[list[Modality], Field(min_length=1, max_length=1)]
    """`["audio"]`, speech with its transcript, or `["text"]`."""
    max_output_tokens: Annotated[int, Field(ge=1)] | Literal["inf"]
    """Its bound."""
    audio: ShownResponseAudio
    usage: Usage | None
    """Null until it is done."""
    metadata: dict[str, str] | None
    """As the client gave it."""


class RateLimit(ShownModel):
    """One quota."""

    name: Literal["requests", "tokens"]
    limit: Count
    """What there is of it."""
    remaining: Count
    """What is left of it."""
    reset_seconds: Annotated[float, Field(ge=0)]
    """Until all of it is there again."""
