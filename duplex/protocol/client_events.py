"""Every event a client may send, as it stands on the wire. What they mean is in `decode`.

Source: `openai.types.realtime.RealtimeClientEvent` (openai 3.57.0); protocol.md, "Client events"; our own carry the prefix
`duplex.`. The words under the fields go into docs/protocol.md.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter

from duplex.protocol.wire_session import (
    AudioFormat,
    MaxTokens,
    Modalities,
    SessionUpdate,
    ToolChoice,
    Tools,
    Voice,
    WireModel,
)

Id = Annotated[str, Field(min_length=1, max_length=128)]
"""An id that the client chose or was given."""
EVENT_ID_CHARS_MAX = 512
EventId = Annotated[str, Field(max_length=EVENT_ID_CHARS_MAX)]
ITEM_MS_MAX = 24 * 3600 * 1000


class _Event(WireModel):
    only_on: ClassVar[Literal["webrtc", "websocket"] | None] = None
    """The one transport that has it; None: both."""

    event_id: EventId | None = None
    """Chosen by the client; an `error` that the event causes names it."""


class SessionUpdateEvent(_Event):
    """Change the session: what is absent stays. Taken as a whole (`session.updated`) or not at all (`error`)."""

    type: Literal["session.update"]
    session: SessionUpdate


class Append(_Event):
    """More of the user's sound. It is not answered."""

    only_on: ClassVar[Literal["webrtc", "websocket"] | None] = "websocket"

    type: Literal["input_audio_buffer.append"]
    audio: str
    """Base64, in the format of `audio.input`, up to 15 MiB; whole samples."""


class Commit(_Event):
    """The audio so far is a turn. Asks for no response by itself."""

    type: Literal["input_audio_buffer.commit"]


class Clear(_Event):
    """Forget the audio so far."""

    type: Literal["input_audio_buffer.clear"]


class ContentPart(WireModel):
    """A part of an item's content."""

    type: str
    """Of a user: `input_text`, `input_audio`, `input_image`; of the system: `input_text`; of the assistant: `output_text`, `output_audio`."""
    text: str | None = None
    """Of `input_text` and `output_text`."""
    transcript: str | None = None
    """Of `input_audio` and `output_audio`."""
    audio: str | None = None
    """Base64, of `input_audio`, in the session's input format: transcribed, and not kept."""
    image_url: str | None = None
    """Of `input_image`: a data URL of PNG, JPEG or WebP; nothing is fetched from an address."""
    detail: str | None = None
    """Has no effect: an image is read in the size that the reader takes."""


class Item(WireModel):
    """An item to be put into the conversation."""

    type: str
    """`message`, `function_call` or `function_call_output`; in the `input` of a response also `item_reference`, with its `id`."""
    id: Id | None = None
    """Left out: the server chooses one."""
    object: str | None = None
    """Has no effect."""
    status: str | None = None
    """Has no effect: an item that is created is complete."""
    role: Literal["user", "assistant", "system"] | None = None
    """Of a `message`."""
    content: list[ContentPart] | None = None
    """Of a `message`."""
    call_id: Id | None = None
    """Of a `function_call`, and of the output that belongs to it."""
    name: str | None = None
    """Of a `function_call`: the function's."""
    arguments: str | None = None
    """Of a `function_call`: JSON."""
    output: str | None = None
    """Of a `function_call_output`: what came of it."""


class ItemCreate(_Event):
    """Put an item into the conversation."""

    type: Literal["conversation.item.create"]
    item: Item
    previous_item_id: Id | None = None
    """Behind this item; `root`: before all; left out: at the end."""


class ItemRetrieve(_Event):
    """Ask for an item as it stands."""

    type: Literal["conversation.item.retrieve"]
    item_id: Id


class ItemDelete(_Event):
    """Take an item out of the conversation."""

    type: Literal["conversation.item.delete"]
    item_id: Id


class ItemTruncate(_Event):
    """Cut the assistant's item, sound and transcript, to what was heard."""

    type: Literal["conversation.item.truncate"]
    item_id: Id
    content_index: Annotated[int, Field(ge=0, le=100)] = 0
    audio_end_ms: Annotated[int, Field(ge=0, le=ITEM_MS_MAX)]
    """Length of what was heard, from the item's first sample."""


class ResponseAudioOutput(WireModel):
    """How one response sounds."""

    format: AudioFormat | None = None
    voice: Voice = None
    """One of the model pack's; left out: the session's."""


class ResponseAudio(WireModel):
    """The one direction of a response."""

    output: ResponseAudioOutput | None = None


class ResponseParams(WireModel):
    """How one response differs from what the session says."""

    conversation: str | None = None
    """`auto`, or `none`: out of band."""
    input: list[Item] | None = None
    """Items, and references (`item_reference`) to items of the conversation, to answer in its place; `[]`: none."""
    instructions: str | None = None
    """In place of the session's."""
    output_modalities: Modalities = None
    """`["audio"]`, speech with its transcript, or `["text"]`."""
    max_output_tokens: MaxTokens = None
    """Its bound."""
    metadata: (
        Annotated[
            dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
        ]
        | None
    ) = None
    """Comes back in the response."""
    audio: ResponseAudio | None = None
    tools: Tools = None
    """In place of the session's."""
    tool_choice: ToolChoice = None
    """Whether the model may, must not or has to call a tool, or which one."""
    parallel_tool_calls: bool | None = None
    """Several calls may come in the response."""
    prompt: dict[str, Any] | None = None
    """Stored prompts are not supported."""
    reasoning: Any = None
    """Has no effect."""


class ResponseCreate(_Event):
    """Ask for a response."""

    type: Literal["response.create"]
    response: ResponseParams | None = None


class ResponseCancel(_Event):
    """End a response; it ends with `response.done`."""

    type: Literal["response.cancel"]
    response_id: Id | None = None
    """Left out: the one of the conversation that is in progress."""


class OutputClear(_Event):
    """Be silent at once: what was made and did not sound yet is dropped."""

    only_on: ClassVar[Literal["webrtc", "websocket"] | None] = "webrtc"

    type: Literal["output_audio_buffer.clear"]


class DuplexPlaybackReport(_Event):
    """What the client has played of a reply, measured at its own output."""

    type: Literal["duplex.playback.report"]
    response_id: Id
    played_ms: Annotated[float, Field(ge=0, le=ITEM_MS_MAX, allow_inf_nan=False)]
    """From the reply's first sample."""


class DuplexSessionResume(_Event):
    """Come back to a session (resume.md): the first event of a new WebSocket, or on a new data channel of the same call."""

    type: Literal["duplex.session.resume"]
    token: Annotated[str, Field(max_length=128)]
    """The newest that the session gave."""
    last_event_id: Annotated[str | None, Field(max_length=EVENT_ID_CHARS_MAX)] = None
    """Id of the last event that was seen: those after it are sent again. Without it the conversation is told as it stands."""


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
