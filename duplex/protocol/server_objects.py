"""Items, responses and their parts, as they stand on the wire in the server's events.

A field is always there unless it says "Left out …". Source: `openai.types.realtime` (openai 3.57.0); protocol.md, "Traps".
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from duplex.protocol.server_model import LEFT_OUT, Count, Milliseconds, ShownModel
from duplex.protocol.server_session import Modality, ShownFormat

ItemStatus = Literal["in_progress", "completed", "incomplete"]


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
