"""Every event a client may send, as it stands on the wire. What they mean is in `decode`.

Source: `openai.types.realtime.RealtimeClientEvent` (openai 3.57.0); protocol.md, "Client events"; our own carry the prefix
`duplex.`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from duplex.protocol.wire_session import AudioFormat, MaxTokens, Modalities, SessionUpdate, ToolChoice, Voice, WireModel

Id = Annotated[str, Field(min_length=1, max_length=128)]
"""An id that the client chose or was given."""
EVENT_ID_CHARS_MAX = 512
EventId = Annotated[str, Field(max_length=EVENT_ID_CHARS_MAX)]
ITEM_MS_MAX = 24 * 3600 * 1000


class _Event(WireModel):
    event_id: EventId | None = None


class SessionUpdateEvent(_Event):
    type: Literal["session.update"]
    session: SessionUpdate


class Append(_Event):
    type: Literal["input_audio_buffer.append"]
    audio: str
    """Base64."""


class Commit(_Event):
    type: Literal["input_audio_buffer.commit"]


class Clear(_Event):
    type: Literal["input_audio_buffer.clear"]


class ContentPart(WireModel):
    type: str
    text: str | None = None
    transcript: str | None = None
    audio: str | None = None
    image_url: str | None = None
    detail: str | None = None
    """Has no effect: an image is read in the size that the reader takes."""


class Item(WireModel):
    type: str
    id: Id | None = None
    role: Literal["user", "assistant", "system"] | None = None
    content: list[ContentPart] | None = None
    call_id: Id | None = None
    """Of a function_call or a function_call_output, as the three below."""
    name: str | None = None
    arguments: str | None = None
    """JSON text."""
    output: str | None = None
    status: str | None = None
    """Has no effect, nor has `object`."""
    object: str | None = None


class ItemCreate(_Event):
    type: Literal["conversation.item.create"]
    item: Item
    previous_item_id: Id | None = None


class ItemRetrieve(_Event):
    type: Literal["conversation.item.retrieve"]
    item_id: Id


class ItemDelete(_Event):
    type: Literal["conversation.item.delete"]
    item_id: Id


class ItemTruncate(_Event):
    type: Literal["conversation.item.truncate"]
    item_id: Id
    content_index: Annotated[int, Field(ge=0, le=100)] = 0
    audio_end_ms: Annotated[int, Field(ge=0, le=ITEM_MS_MAX)]


class ResponseAudioOutput(WireModel):
    format: AudioFormat | None = None
    voice: Voice = None


class ResponseAudio(WireModel):
    output: ResponseAudioOutput | None = None


class ResponseParams(WireModel):
    conversation: str | None = None
    input: list[Any] | None = None
    instructions: str | None = None
    output_modalities: Modalities = None
    max_output_tokens: MaxTokens = None
    metadata: (
        Annotated[
            dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
        ]
        | None
    ) = None
    audio: ResponseAudio | None = None
    tools: list[Any] | None = None
    tool_choice: ToolChoice = None
    parallel_tool_calls: bool | None = None
    prompt: dict[str, Any] | None = None


class ResponseCreate(_Event):
    type: Literal["response.create"]
    response: ResponseParams | None = None


class ResponseCancel(_Event):
    type: Literal["response.cancel"]
    response_id: Id | None = None


class OutputClear(_Event):
    type: Literal["output_audio_buffer.clear"]


class DuplexPlaybackReport(_Event):
    """What the client has played of a reply, measured at its own output."""

    type: Literal["duplex.playback.report"]
    response_id: Id
    played_ms: Annotated[float, Field(ge=0, le=ITEM_MS_MAX, allow_inf_nan=False)]
    """From the reply's first sample."""


class DuplexSessionResume(_Event):
    type: Literal["duplex.session.resume"]


ClientEvent = Annotated[
    SessionUpdateEvent
    | Append
    | Commit
    | Clear
    | ItemCreate
    | ItemRetrieve
    | ItemDelete
    | ItemTruncate
    | ResponseCreate
    | ResponseCancel
    | OutputClear
    | DuplexPlaybackReport
    | DuplexSessionResume,
    Field(discriminator="type"),
]
CLIENT_EVENT: TypeAdapter[ClientEvent] = TypeAdapter(ClientEvent)
"""Validates an object to one of the above, by its `type`."""
