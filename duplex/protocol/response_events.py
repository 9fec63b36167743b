"""The events of a response, from its creation to its end, as they stand on the wire.

Source: `openai.types.realtime.RealtimeServerEvent` (openai 3.57.0); protocol.md, "Server events".
"""

from __future__ import annotations

from typing import ClassVar, Literal

from duplex.protocol.decode import TransportName
from duplex.protocol.server_model import Index, ShownEvent
from duplex.protocol.server_objects import ConversationItem, Response, ShownPart


class ResponseCreatedEvent(ShownEvent):
    """A response has begun."""

    type: Literal["response.created"]
    response: Response


class ResponseDoneEvent(ShownEvent):
    """A response has ended, in one way or another: there is no other event that says so, and never a second one."""

    type: Literal["response.done"]
    response: Response


class _OfResponse(ShownEvent):
    response_id: str
    output_index: Index
    """Of the item in the response's output."""


class OutputItemAddedEvent(_OfResponse):
    """An item of a response has begun."""

    type: Literal["response.output_item.added"]
    item: ConversationItem


class OutputItemDoneEvent(_OfResponse):
    """An item of a response is all there."""

    type: Literal["response.output_item.done"]
    item: ConversationItem


class _OfContent(_OfResponse):
    item_id: str
    content_index: Index


class ContentPartAddedEvent(_OfContent):
    """A content part has begun, empty."""

    type: Literal["response.content_part.added"]
    part: ShownPart


class ContentPartDoneEvent(_OfContent):
    """A content part as it was made: its text is what the deltas add up to, heard or not."""

    type: Literal["response.content_part.done"]
    part: ShownPart


class OutputTextDeltaEvent(_OfContent):
    """More text."""

    type: Literal["response.output_text.delta"]
    delta: str


class OutputTextDoneEvent(_OfContent):
    """All of the text."""

    type: Literal["response.output_text.done"]
    text: str
    """What the deltas add up to."""


class OutputTranscriptDeltaEvent(_OfContent):
    """More of the words; they leave with the audio of their clause, not ahead of the ear."""

    type: Literal["response.output_audio_transcript.delta"]
    delta: str


class OutputTranscriptDoneEvent(_OfContent):
    """All of the words."""

    type: Literal["response.output_audio_transcript.done"]
    transcript: str
    """What the deltas add up to, heard or not."""


class OutputAudioDeltaEvent(_OfContent):
    """More sound. A WebRTC call has it on its track."""

    only_on: ClassVar[TransportName | None] = "websocket"

    type: Literal["response.output_audio.delta"]
    delta: str
    """Base64, in the format of `audio.output`."""


class OutputAudioDoneEvent(_OfContent):
    """All of the sound was made."""

    type: Literal["response.output_audio.done"]


class _OfCall(_OfResponse):
    item_id: str
    call_id: str


class CallArgumentsDeltaEvent(_OfCall):
    """More of a call's arguments."""

    type: Literal["response.function_call_arguments.delta"]
    delta: str


class CallArgumentsDoneEvent(_OfCall):
    """All of a call's arguments."""

    type: Literal["response.function_call_arguments.done"]
    name: str
    """Of the function."""
    arguments: str
    """JSON."""
